package io.ppmr.target.session;

import io.ppmr.os.LogContext;
import io.ppmr.target.image.ArrivingFile;
import io.ppmr.target.image.ImageListener;
import io.ppmr.target.image.ReceiveSlot;
import io.ppmr.target.metrics.TargetHops;
import io.ppmr.transport.ControlLink;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.Consumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Takes what FUSE's threads, the transport's and any other leave for the session's agent of one transfer, which they
 * wake: receive slots that are empty, readers that wait, and the first failure. Nothing here takes a lock.
 */
final class AgentInbox implements ImageListener {
    private static final Logger LOG = LoggerFactory.getLogger(AgentInbox.class);

    private static final int FREED_AT_ONCE_SHARE = 16;

    private final ControlLink link;
    private final TargetHops hops;
    private final Consumer<String> onFailure;
    /** The thread that makes it knows the migration and the peer; those that call it often do not. */
    private final LogContext about = LogContext.ofThisThread();

    private final ChunkBits freedChunks;
    /** Chunks that have become free since the agent looked. */
    private final AtomicInteger freedSince = new AtomicInteger();

    private final int enoughFreed;
    private volatile boolean slotIsAwaited;
    private final AtomicBoolean stagingFreed = new AtomicBoolean();
    private final AtomicBoolean readerWaits = new AtomicBoolean();
    private final AtomicInteger uncoveredStreams = new AtomicInteger();
    private final AtomicReference<String> failure = new AtomicReference<>();
    private final LongAdder readBytes = new LongAdder();
    private final AtomicLong refusedSeeks = new AtomicLong();

    /** @param onFailure told the first reason, once */
    AgentInbox(ControlLink link, TargetHops hops, int chunks, Consumer<String> onFailure) {
        this.link = link;
        this.hops = hops;
        this.onFailure = onFailure;
        freedChunks = new ChunkBits(chunks);
        enoughFreed = Math.max(1, chunks / FREED_AT_ONCE_SHARE);
    }

    // ---- any thread -------------------------------------------------------------------------------------------

    /** Fails the migration; the first reason counts. */
    void fail(String reason) {
        end(reason, () -> LOG.error("the migration fails: {}", reason));
    }

    /** Ends the transfer, for a reason that is no failure of its own. */
    void giveUp(String reason) {
        end(reason, () -> LOG.info("the transfer ends: {}", reason));
    }

    private void end(String reason, Runnable said) {
        if (failure.compareAndSet(null, reason)) {
            about.logging(said);
            onFailure.accept(reason);
            link.wake();
        }
    }

    /** The first reason; null while there is none. */
    String failure() {
        return failure.get();
    }

    /** Returns how many bytes readers have been given. */
    long readBytes() {
        return readBytes.sum();
    }

    /** Returns how many reads asked for bytes that were given away before. */
    long refusedSeeks() {
        return refusedSeeks.get();
    }

    /** Returns how many streams' readers need a receive slot next that is not granted yet. */
    int uncoveredStreams() {
        return uncoveredStreams.get();
    }

    @Override
    public void slotFree(ReceiveSlot slot) {
        freedChunks.set(slot.chunk());
        // If no writer is blocked, several grants are made together: the agent checks every few milliseconds.
        if (slotIsAwaited || freedSince.incrementAndGet() >= enoughFreed) {
            link.wake();
        }
    }

    @Override
    public void stagingFree() {
        if (!stagingFreed.get()) {
            stagingFreed.set(true);
            link.wake();
        }
    }

    @Override
    public void stagingFailed(ArrivingFile file, String reason) {
        fail("file " + file.name() + ": " + reason);
    }

    @Override
    public void readerWaits(ArrivingFile file) {
        if (!readerWaits.get()) {
            readerWaits.set(true);
            link.wake();
        }
    }

    @Override
    public void readerWaited(ArrivingFile file, long tookNs) {
        hops.readerWaited(file.id(), tookNs);
    }

    @Override
    public void uncoveredStreams(int change) {
        uncoveredStreams.addAndGet(change);
    }

    @Override
    public void bytesRead(long bytes) {
        readBytes.add(bytes);
        hops.read(bytes);
    }

    @Override
    public void seekRefused(ArrivingFile file, long offset) {
        refusedSeeks.incrementAndGet();
        String text = "file {}: a restart asks for offset {}, which it has read before; a streamed image is read once: "
                + "configure the checkpointer as retained";
        about.logging(() -> LOG.warn(text, file.name(), offset));
    }

    // ---- the session's agent ----------------------------------------------------------------------------------

    /** Returns whether something was left that the agent has not taken. */
    boolean hasWork() {
        return readerWaits.get() || !freedChunks.isEmpty() || stagingFreed.get();
    }

    /** The chunks whose receive slots are empty. */
    ChunkBits freedChunks() {
        freedSince.set(0);
        return freedChunks;
    }

    /** Notes whether a writer is blocked for want of a receive slot. */
    void slotIsAwaited(boolean awaited) {
        if (slotIsAwaited != awaited) {
            slotIsAwaited = awaited;
        }
    }

    /** Tells once that places in staging have become free. */
    boolean takeStagingFreed() {
        return stagingFreed.getAndSet(false);
    }

    /** Tells once that a reader has begun to wait. */
    boolean takeReaderWaits() {
        return readerWaits.getAndSet(false);
    }
}
