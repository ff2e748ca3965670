package io.ppmr.target.image;

import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.Predicate;

/**
 * The state that the files of one rank share. One checkpointer writes them and one restart reads them. Both may process
 * the files in turn, so a reader of one file can wait for a writer that is blocked at another.
 *
 * <p>Any thread. Only the agent uses {@link #allowStaging}.
 */
public final class RankImage {
    private final int rank;
    private final Predicate<String> streams;
    private final boolean writesStreamsConcurrently;
    private final AtomicInteger readersWaiting = new AtomicInteger();
    private final LongAdder arrivedBytes = new LongAdder();
    private final LongAdder readBytes = new LongAdder();
    private volatile boolean ended;
    private boolean staging;

    /** Creates the state of a rank whose checkpointer writes one file after the other. */
    public RankImage(int rank, Predicate<String> streams) {
        this(rank, streams, false);
    }

    /**
     * @param streams returns for a file's name whether it is read once, from front to back
     * @param writesStreamsConcurrently whether these files are written concurrently, so that none waits for another
     *     one's reader
     */
    RankImage(int rank, Predicate<String> streams, boolean writesStreamsConcurrently) {
        this.rank = rank;
        this.streams = streams;
        this.writesStreamsConcurrently = writesStreamsConcurrently;
    }

    /** Returns whether its streams are written concurrently. */
    boolean writesStreamsConcurrently() {
        return writesStreamsConcurrently;
    }

    public int rank() {
        return rank;
    }

    /** Returns whether the file at this path is read once, from front to back. */
    boolean streams(String path) {
        return streams.test(path.substring(path.lastIndexOf('/') + 1));
    }

    /** Marks all its files as complete. No other file follows. */
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

    /** Counts bytes of its files that arrived. */
    public void addArrived(long bytes) {
        arrivedBytes.add(bytes);
    }

    /** Counts bytes of its files that its restart read. */
    void addRead(long bytes) {
        readBytes.add(bytes);
    }

    /** Returns the number of bytes that arrived. Never blocks. */
    public long arrivedBytes() {
        return arrivedBytes.sum();
    }

    /** Returns the number of bytes that its restart read. Never blocks. */
    public long readBytes() {
        return readBytes.sum();
    }

    /** Counts a reader of a file, or an opener of a missing file, that begins to wait. */
    public void readerBlocked() {
        readersWaiting.incrementAndGet();
    }

    public void readerResumed() {
        readersWaiting.decrementAndGet();
    }

    public boolean hasWaitingReader() {
        return readersWaiting.get() > 0;
    }

    /** Allows unread bytes to be staged, so that writers of this rank need not wait for a reader of the same file. */
    public void allowStaging() {
        staging = true;
    }

    boolean stagingAllowed() {
        return staging;
    }
}
