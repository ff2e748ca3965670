package io.ppmr.target.session;

import io.ppmr.linux.LogContext;
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
 * Collects events for the session's agent of one transfer, from FUSE's threads, the transport's threads and others, and
 * wakes the agent. The events are empty receive slots, waiting readers, and the first failure. This class takes no
 * lock.
 */
final class AgentInbox implements ImageListener {
    private static final Logger LOG = LoggerFactory.getLogger(AgentInbox.class);

    private static final int WAKE_SHARE = 16;

    private final ControlLink link;
    private final TargetHops hops;
    private final Consumer<String> onFailure;
    /** The creating thread has the fields of the migration and the peer. The calling threads often do not. */
    private final LogContext logContext = LogContext.current();

    private final ChunkBits freedChunks;
    /** The number of chunks that became free since the agent's last check. */
    private final AtomicInteger freedSince = new AtomicInteger();

    private final int wakeThreshold;
    private volatile boolean slotIsAwaited;
    private final AtomicBoolean stagingFreed = new AtomicBoolean();
    private final AtomicBoolean readerWaits = new AtomicBoolean();
    private final AtomicInteger uncoveredStreams = new AtomicInteger();
    private final AtomicReference<String> failure = new AtomicReference<>();
    private final LongAdder readBytes = new LongAdder();
    private final AtomicLong refusedSeeks = new AtomicLong();

    /** @param onFailure called once, with the first reason */
    AgentInbox(ControlLink link, TargetHops hops, int chunks, Consumer<String> onFailure) {
        this.link = link;
        this.hops = hops;
        this.onFailure = onFailure;
        freedChunks = new ChunkBits(chunks);
        wakeThreshold = Math.max(1, chunks / WAKE_SHARE);
    }

    // ---- any thread -------------------------------------------------------------------------------------------

    /** Fails the migration. Only the first reason counts. */
    void fail(String reason) {
        end(reason, () -> LOG.error("the migration failed: {}", reason));
    }

    /** Stops the transfer for an external reason. */
    void stop(String reason) {
        end(reason, () -> LOG.info("the transfer ends: {}", reason));
    }

    private void end(String reason, Runnable logLine) {
        if (failure.compareAndSet(null, reason)) {
            logContext.logging(logLine);
            onFailure.accept(reason);
            link.wake();
        }
    }

    /** Returns the first reason; null while there is none. */
    String failure() {
        return failure.get();
    }

    /** Returns how many bytes were copied to readers. */
    long readBytes() {
        return readBytes.sum();
    }

    /** Returns how many reads requested bytes that were read before. */
    long refusedSeeks() {
        return refusedSeeks.get();
    }

    /** Returns the number of streams whose readers need an ungranted receive slot next. */
    int uncoveredStreams() {
        return uncoveredStreams.get();
    }

    @Override
    public void slotFree(ReceiveSlot slot) {
        freedChunks.set(slot.chunk());
        // If no writer is blocked, several grants are made together: the agent checks every few milliseconds.
        if (slotIsAwaited || freedSince.incrementAndGet() >= wakeThreshold) {
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
        hops.addRead(bytes);
    }

    @Override
    public void seekRefused(ArrivingFile file, long offset) {
        refusedSeeks.incrementAndGet();
        String text = "file {}: a restart reads offset {} again, but a streamed image can be read only once: "
                + "configure the checkpointer as retained";
        logContext.logging(() -> LOG.warn(text, file.name(), offset));
    }

    // ---- the session's agent ----------------------------------------------------------------------------------

    /** Returns whether there is an event that the agent did not process. */
    boolean hasWork() {
        return readerWaits.get() || !freedChunks.isEmpty() || stagingFreed.get();
    }

    /** Returns the chunks whose receive slots are empty. */
    ChunkBits freedChunks() {
        freedSince.set(0);
        return freedChunks;
    }

    /** Sets whether a writer is blocked because it has no receive slot. */
    void slotIsAwaited(boolean awaited) {
        if (slotIsAwaited != awaited) {
            slotIsAwaited = awaited;
        }
    }

    /** Returns once whether space in staging became free. */
    boolean pollStagingFreed() {
        return stagingFreed.getAndSet(false);
    }

    /** Returns once whether a reader began to wait. */
    boolean pollReaderWaits() {
        return readerWaits.getAndSet(false);
    }
}
