package io.ppmr.target.image;

import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Predicate;

/**
 * The state that the files of one rank share: one checkpointer writes them and one restart reads them. That both may do
 * so in turn is why a reader of one file can wait for a writer who is blocked at another.
 *
 * <p>Any thread; the agent alone uses {@link #allowStaging}.
 */
public final class RankImage {
    private final int rank;
    private final Predicate<String> streams;
    private final boolean streamsAtOnce;
    private final AtomicInteger readersWaiting = new AtomicInteger();
    private volatile boolean ended;
    private boolean staging;

    /** One whose checkpointer writes one file after the other. */
    public RankImage(int rank, Predicate<String> streams) {
        this(rank, streams, false);
    }

    /**
     * @param streams tells of a file, by its name, whether it is read front to back, once
     * @param streamsAtOnce whether these are written at the same time, so that none waits for another one's reader
     */
    RankImage(int rank, Predicate<String> streams, boolean streamsAtOnce) {
        this.rank = rank;
        this.streams = streams;
        this.streamsAtOnce = streamsAtOnce;
    }

    /** Returns whether its streams are written at the same time. */
    boolean streamsAtOnce() {
        return streamsAtOnce;
    }

    public int rank() {
        return rank;
    }

    /** Returns whether the file at this path is read front to back, once. */
    boolean streams(String path) {
        return streams.test(path.substring(path.lastIndexOf('/') + 1));
    }

    /** Every file of it is whole and no other will come. */
    synchronized void end() {
        ended = true;
        notifyAll();
    }

    boolean hasEnded() {
        return ended;
    }

    /** A name arrived or the migration failed: wakes the readers that wait for a name. */
    synchronized void changed() {
        notifyAll();
    }

    /** A reader of a file, or the opener of a file that has not arrived, begins to wait. */
    public void readerBlocked() {
        readersWaiting.incrementAndGet();
    }

    public void readerResumed() {
        readersWaiting.decrementAndGet();
    }

    public boolean hasWaitingReader() {
        return readersWaiting.get() > 0;
    }

    /** From now on writers of this rank need not wait for a reader of the same file: what is not read is staged. */
    public void allowStaging() {
        staging = true;
    }

    boolean stagingAllowed() {
        return staging;
    }
}
