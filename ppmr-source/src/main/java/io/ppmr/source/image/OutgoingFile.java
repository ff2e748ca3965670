package io.ppmr.source.image;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.bufferpool.FairClaims;
import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.fuse.Errno;
import io.ppmr.linux.LibC;
import io.ppmr.linux.LogContext;
import io.ppmr.protocol.data.FilePrefixFrame;
import io.ppmr.protocol.data.FrameType;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.BooleanSupplier;
import java.util.zip.CRC32C;
import org.agrona.UnsafeApi;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * An image file while a checkpointer writes it (paper 1, section IV, step 2). It gathers the bytes in a chunk of the
 * pool. It sends the chunk when it is full, when the writer continues elsewhere, closes or pauses, or when other
 * writers wait for chunks.
 *
 * <p>A chunk covers one aligned window of the file. It is claimed only after the target granted a receive slot for that
 * window, so every full chunk can be sent. The first 4 KiB are sent at once and need no slot. FUSE's threads write. The
 * session's agent grants, releases and flushes. One lock guards all fields, and lookups do not take it.
 *
 * <p>After a failure {@link ImageFailure} decides whether calls fail, or succeed and are discarded. Discarding needs no
 * chunk, no receive slot and no frame, because the pool may be full and the link closed.
 */
public final class OutgoingFile {
    private static final Logger LOG = LoggerFactory.getLogger(OutgoingFile.class);
    private static final int HEAD_BYTES = FilePrefixFrame.PREFIX_BYTES;
    /**
     * Minimum size of a copy by the C library. Unlike the JVM, it does not read the memory that it overwrites, and the
     * pool is larger than the processor's cache.
     */
    private static final int LARGE_COPY_BYTES = 16 << 10;

    private static final long WAIT_SLICE_NS = TimeUnit.SECONDS.toNanos(1);
    private static final long CHECK_NS = TimeUnit.MILLISECONDS.toNanos(50);

    private final int id;
    private final int rank;
    private final BufferPool pool;
    private final PoolGeometry geometry;
    private final FairClaims claims;
    private final Outlet outlet;
    private final ImageTee.FileCopy copy;
    private final ImageFailure failureState;
    private final WriterActivity activity;
    private final ReentrantLock lock = new ReentrantLock();
    private final Condition changed = lock.newCondition();
    private final CreditSupply supply;
    private final CRC32C crc = new CRC32C();

    private volatile String name;
    private volatile long size;
    /** Changed under the lock, read by samplers without it. */
    private final AtomicLong writtenBytes = new AtomicLong();

    private final AtomicLong sentBytes = new AtomicLong();

    private int chunk = BufferPool.NONE;
    private int slot;
    private long window;
    private int from;
    private int to;
    private long chunkSinceNs;
    private long lastWriteNs;
    private long lastWriteEnd;
    private int openHandles;
    private boolean ended;

    /**
     * @param copy receives the written bytes a second time
     * @param failureState shared by all files of the session
     * @param activity shared by all checkpoints of the attempt
     */
    public OutgoingFile(
            int id,
            String name,
            int rank,
            BufferPool pool,
            FairClaims claims,
            Outlet outlet,
            ImageTee.FileCopy copy,
            ImageFailure failureState,
            WriterActivity activity) {
        this.id = id;
        this.name = name;
        this.rank = rank;
        this.pool = pool;
        this.geometry = pool.geometry();
        this.claims = claims;
        this.outlet = outlet;
        this.copy = copy;
        this.failureState = failureState;
        this.activity = activity;
        this.supply = new CreditSupply(this, lock, changed, outlet);
    }

    public int id() {
        return id;
    }

    public int rank() {
        return rank;
    }

    /** The file's path, for messages. */
    public String name() {
        return name;
    }

    /** Returns the file's kept copy. */
    ImageTee.FileCopy copy() {
        return copy;
    }

    /** Returns the fields of log lines about the file. Its path begins with its migration and the attempt. */
    LogContext logContext() {
        int end = name.indexOf('.');
        return LogContext.of(end < 1 ? name : name.substring(1, end), rank);
    }

    public void rename(String newName) {
        name = newName;
    }

    /** Returns the reason of the first failure, or null; never blocks. */
    String failure() {
        return failureState.failure();
    }

    /** Never blocks, so that lookups succeed while a writer waits. */
    public long size() {
        return size;
    }

    /** Returns the number of bytes that its checkpointer wrote. Never blocks. */
    public long writtenBytes() {
        return writtenBytes.get();
    }

    /** Returns the number of bytes that were sent. Never blocks. */
    public long sentBytes() {
        return sentBytes.get();
    }

    // ---- FUSE's threads ---------------------------------------------------------------------------------------

    /**
     * Copies bytes from native memory. Waits for receive slots and chunks if necessary.
     *
     * @return {@code lengthBytes}, or a negated errno
     */
    public int write(long address, int lengthBytes, long offset) {
        activity.begin();
        lock.lock();
        try {
            requireNotEnded();
            int accepted = 0;
            while (accepted < lengthBytes && failureState.failure() == null) {
                int step = gatherNext(address + accepted, lengthBytes - accepted, offset + accepted);
                if (step < 0 && !failureState.mayDiscard()) {
                    return step;
                }
                if (step < 0) {
                    failImage(
                            step == Errno.ENOSPC.negated()
                                    ? "the target has no space for a write at " + (offset + accepted)
                                    : "a write at " + (offset + accepted) + " was aborted");
                }
                accepted += Math.max(0, step);
            }
            return accepted == lengthBytes ? accepted : acceptAndDiscard(lengthBytes, offset);
        } catch (IOException e) {
            if (!failureState.mayDiscard()) {
                logContext().logging(() -> LOG.warn("file {}: a write failed: {}", name, e.getMessage()));
                return Errno.EIO.negated();
            }
            failImage("a write failed: " + e.getMessage());
            return acceptAndDiscard(lengthBytes, offset);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return Errno.EINTR.negated();
        } finally {
            lock.unlock();
            activity.end();
        }
    }

    /** Truncates or extends the file. */
    public void truncate(long newSize) throws IOException {
        change(
                () -> {
                    if (newSize != size) {
                        requireNotEnded();
                        sendGathered();
                        size = newSize;
                        copy.truncate(newSize);
                        outlet.sendValue(FrameType.TRUNCATE, id, newSize);
                    }
                },
                () -> size = newSize);
    }

    /** Sends the gathered bytes after a descriptor was closed. */
    public void flush() throws IOException {
        change(this::sendGathered, () -> {
            // No bytes are gathered after a failure.
        });
    }

    /** Blocks until all bytes written before arrived at the target. */
    public void sync() throws IOException, InterruptedException {
        flush();
        if (failureState.discards()) {
            return;
        }
        activity.begin();
        try {
            outlet.sync(this);
        } catch (IOException e) {
            if (!failureState.mayDiscard()) {
                throw e;
            }
            failImage(e.getMessage());
        } finally {
            activity.end();
        }
    }

    /** Counts an opened handle. */
    public void opened() {
        lock.lock();
        try {
            openHandles++;
        } finally {
            lock.unlock();
        }
    }

    /** Counts a released handle. The last one sends all bytes, unless the image failed. */
    public void closed() throws IOException {
        lock.lock();
        try {
            openHandles--;
            if (openHandles == 0) {
                changed.signalAll();
                sendRemaining();
            }
        } finally {
            lock.unlock();
        }
    }

    private void sendRemaining() throws IOException {
        if (failureState.failure() != null) {
            // The kernel releases a handle some time after its process ended, so the connection may be closed by now.
            return;
        }
        try {
            sendGathered();
            supply.returnAll();
        } catch (IOException e) {
            if (!failureState.mayDiscard()) {
                throw e;
            }
            failImage("its last bytes cannot be sent: " + e.getMessage());
        }
    }

    // ---- the migration ----------------------------------------------------------------------------------------

    /**
     * Waits until the last handle is released and reports to the target that the file is complete. The checkpointer
     * reported success before, or that it no longer writes this file. No write may follow. A second call does nothing.
     *
     * @param calledOff queried while waiting; if true the wait ends with an exception
     * @return whether all handles were released in time
     */
    public boolean end(long deadlineNs, BooleanSupplier calledOff) throws IOException, InterruptedException {
        lock.lock();
        try {
            while (openHandles > 0 && failureState.failure() == null) {
                long remainingNs = deadlineNs - System.nanoTime();
                if (remainingNs <= 0) {
                    return false;
                }
                if (calledOff.getAsBoolean()) {
                    throw new IOException("file " + name + " was still open when the migration was cancelled");
                }
                changed.awaitNanos(Math.min(remainingNs, CHECK_NS));
            }
            sendEnd();
            return true;
        } finally {
            lock.unlock();
        }
    }

    /** Reports the end of the file, even if the kernel did not report the release of its last handle yet. */
    void endClosed() throws IOException {
        lock.lock();
        try {
            sendEnd();
        } finally {
            lock.unlock();
        }
    }

    private void sendEnd() throws IOException {
        requireWanted();
        if (!ended) {
            sendGathered();
            supply.returnAll();
            outlet.sendValue(FrameType.END_OF_FILE, id, size);
            ended = true;
        }
    }

    /**
     * Ends every wait after a failure that the shared {@link ImageFailure} records, and releases the gathered chunk.
     */
    void wakeFailed() {
        lock.lock();
        try {
            supply.wake();
            if (chunk != BufferPool.NONE) {
                claims.releaseUnused(chunk);
                chunk = BufferPool.NONE;
            }
            changed.signalAll();
        } finally {
            lock.unlock();
        }
    }

    // ---- the session's agent ----------------------------------------------------------------------------------

    /**
     * Adds a receive slot that the target granted. Takes no lock, since its holder may wait for the agent to send
     * something.
     *
     * @return false if the target grants more credits than were requested
     */
    public boolean granted(long grantedWindow, int grantedSlot) {
        return supply.offerReply(grantedWindow, grantedSlot);
    }

    /** Adds the target's denial of a receive slot; takes no lock. */
    public boolean denied(long deniedWindow) {
        return supply.offerReply(deniedWindow, CreditSupply.DENIED);
    }

    /**
     * Sends a chunk that was gathered for longer than {@code chunkAgeNs}, and returns unused receive slots, so that a
     * pausing writer keeps no resources. Skips a file whose lock is held.
     */
    public void flushIfOlder(long nowNs, long chunkAgeNs, long idleNs) throws IOException {
        if (!lock.tryLock()) {
            return;
        }
        try {
            if (failureState.failure() != null) {
                return;
            }
            if (chunk != BufferPool.NONE && nowNs - chunkSinceNs > chunkAgeNs) {
                sendGathered();
            }
            if (chunk == BufferPool.NONE && !supply.isAwaited() && nowNs - lastWriteNs > idleNs) {
                supply.returnAll();
            }
        } finally {
            lock.unlock();
        }
    }

    // ---- under the lock ---------------------------------------------------------------------------------------

    private int gatherNext(long address, int lengthBytes, long offset) throws IOException, InterruptedException {
        if (offset < HEAD_BYTES) {
            int bytes = (int) Math.min(lengthBytes, HEAD_BYTES - offset);
            outlet.sendPrefix(this, (int) offset, address, bytes);
            sentBytes.lazySet(sentBytes.get() + bytes);
            recordWrite(address, offset, bytes);
            return bytes;
        }
        long wanted = geometry.windowOf(offset);
        int at = geometry.offsetInWindow(offset);
        int bytes = Math.min(lengthBytes, geometry.chunkBytes() - at);
        if (chunk != BufferPool.NONE && (window != wanted || at > to || at + bytes < from)) {
            sendGathered();
        }
        if (chunk == BufferPool.NONE) {
            int begun = beginChunk(wanted, at, offset);
            if (begun <= 0) {
                return begun;
            }
        }
        copyIn(address, pool.address(chunk) + at, bytes);
        boolean isSequential = offset == lastWriteEnd;
        from = Math.min(from, at);
        to = Math.max(to, at + bytes);
        recordWrite(address, offset, bytes);
        int first = wanted == 0 ? HEAD_BYTES : 0;
        if (to == geometry.chunkBytes() && (from == first || isSequential)) {
            sendGathered();
        }
        return bytes;
    }

    private static void copyIn(long from, long to, int bytes) {
        if (bytes < LARGE_COPY_BYTES) {
            UnsafeApi.copyMemory(from, to, bytes);
        } else {
            LibC.CALLS.memcpy(to, from, bytes);
        }
    }

    private void recordWrite(long address, long offset, int bytes) {
        copy.write(address, bytes, offset);
        long end = offset + bytes;
        size = Math.max(size, end);
        lastWriteEnd = end;
        writtenBytes.lazySet(writtenBytes.get() + bytes);
        lastWriteNs = System.nanoTime();
    }

    /** Obtains a receive slot and a chunk for a window: returns 1 on success, 0 to retry, or a negated errno. */
    private int beginChunk(long wanted, int at, long offset) throws IOException, InterruptedException {
        CreditSupply.WaitResult result = supply.await(wanted);
        if (result != CreditSupply.WaitResult.GRANTED) {
            return result == CreditSupply.WaitResult.DENIED ? Errno.ENOSPC.negated() : Errno.EIO.negated();
        }
        int claimed = claim();
        if (claimed < 0) {
            return Errno.EIO.negated();
        }
        if (failureState.failure() != null || chunk != BufferPool.NONE || !supply.hasCredit(wanted)) {
            // The lock was released during the wait for the chunk.
            claims.releaseUnused(claimed);
            return 0;
        }
        boolean inOrder = wanted == window + 1 && offset == lastWriteEnd;
        chunk = claimed;
        window = wanted;
        from = at;
        to = at;
        chunkSinceNs = System.nanoTime();
        slot = supply.use(wanted, inOrder);
        return 1;
    }

    /** Claims a chunk. If it must wait, it releases the lock, and the agent flushes files whose writers pause. */
    private int claim() {
        int claimed = claims.claim(System.nanoTime());
        if (claimed != FairClaims.TIMED_OUT) {
            return claimed;
        }
        lock.unlock();
        long startNs = System.nanoTime();
        try {
            while (claimed == FairClaims.TIMED_OUT && failureState.failure() == null) {
                outlet.onPoolEmpty();
                claimed = claims.claim(System.nanoTime() + WAIT_SLICE_NS);
            }
            return claimed;
        } finally {
            outlet.waitedForChunk(System.nanoTime() - startNs);
            lock.lock();
        }
    }

    private interface Change {
        void make() throws IOException;
    }

    /**
     * Makes a change and reports it to the target.
     *
     * @param unsent the part of the change that remains after a failure
     */
    private void change(Change change, Runnable unsent) throws IOException {
        activity.begin();
        lock.lock();
        try {
            if (!failureState.discards()) {
                requireWanted();
                change.make();
                return;
            }
            unsent.run();
        } catch (IOException e) {
            if (!failureState.mayDiscard()) {
                throw e;
            }
            failImage(e.getMessage());
            unsent.run();
        } finally {
            lock.unlock();
            activity.end();
        }
    }

    private void requireWanted() throws IOException {
        if (failureState.failure() != null) {
            throw new IOException("file " + name + ": " + failureState.failure());
        }
    }

    private void requireNotEnded() throws IOException {
        if (ended && failureState.failure() == null) {
            throw new IOException("file " + name + " was changed after its checkpointer reported it as complete");
        }
    }

    /** A call failed, so the image cannot become complete. If writes are discarded the writer receives no error. */
    private void failImage(String reason) {
        if (failureState.fail("file " + name + ": " + reason) && failureState.mayDiscard()) {
            logContext()
                    .logging(() -> LOG.warn(
                            "file {}: {}; the attempt failed, and further writes in it are discarded: its"
                                    + " checkpointer writes from inside the process, which an error could end",
                            name,
                            reason));
        }
    }

    /** Returns the result of a write after the failure. The file gets the size that it would have. */
    private int acceptAndDiscard(int lengthBytes, long offset) {
        if (!failureState.discards()) {
            return Errno.EIO.negated();
        }
        size = Math.max(size, offset + lengthBytes);
        return lengthBytes;
    }

    /** Returns the CRC32C of a part of a chunk that is being sent; for the sending thread. */
    public int crc32c(int chunk, int offsetInChunk, int lengthBytes) {
        ByteBuffer bytes = pool.buffer(chunk);
        bytes.limit(offsetInChunk + lengthBytes).position(offsetInChunk);
        crc.reset();
        crc.update(bytes);
        return (int) crc.getValue();
    }

    private void sendGathered() throws IOException {
        if (chunk == BufferPool.NONE) {
            return;
        }
        int full = chunk;
        chunk = BufferPool.NONE;
        pool.markReady(full);
        long offset = window * geometry.chunkBytes() + from;
        try {
            outlet.sendChunk(this, full, from, offset, to - from, slot, chunkSinceNs);
            sentBytes.lazySet(sentBytes.get() + to - from);
        } catch (IOException e) {
            // The writer's bytes are lost, so the file cannot become complete.
            failImage(String.valueOf(e.getMessage()));
            throw e;
        }
    }
}
