package io.ppmr.source.image;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.bufferpool.FairClaims;
import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.fuse.Errno;
import io.ppmr.os.LibC;
import io.ppmr.os.LogContext;
import io.ppmr.protocol.data.FilePrefixFrame;
import io.ppmr.protocol.data.FrameType;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.BooleanSupplier;
import java.util.zip.CRC32C;
import org.agrona.UnsafeApi;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One image file while a checkpointer writes it (paper 1, section IV, step 2): gathers its bytes into a chunk of the
 * pool, and hands the chunk over when it is full, when the writer goes elsewhere, closes or pauses, or when others
 * starve for chunks.
 *
 * <p>A chunk covers one aligned window of the file and is claimed only for a receive slot that the target granted for
 * that window, so every full chunk can leave. The first 4 KiB leave at once and need none. Written by FUSE's threads;
 * the session's agent grants, releases and flushes; one lock guards all of it, and no lookup takes it.
 *
 * <p>After a failure it depends on the {@link ImageFailure} whether calls fail, or succeed and are thrown away. The
 * latter takes no chunk, no receive slot and no frame: the pool may be full and the link dead.
 */
public final class OutgoingFile {
    private static final Logger LOG = LoggerFactory.getLogger(OutgoingFile.class);
    private static final int HEAD_BYTES = FilePrefixFrame.HEAD_BYTES;
    /**
     * From this size on the C library copies. It does not read the memory that it overwrites, as the JVM does, and the
     * pool is larger than the processor's cache.
     */
    private static final int LARGE_COPY_BYTES = 16 << 10;

    private static final long WAIT_SLICE_NS = TimeUnit.SECONDS.toNanos(1);
    private static final long LOOK_NS = TimeUnit.MILLISECONDS.toNanos(50);

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
     * @param copy takes what is written a second time
     * @param failureState of all files of the session
     * @param activity of all checkpoints of the attempt
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

    /** Returns the kept copy to which its bytes go, too. */
    ImageTee.FileCopy copy() {
        return copy;
    }

    /** Returns the subject of log lines about it; its path begins with its migration and the attempt. */
    LogContext logContext() {
        int end = name.indexOf('.');
        return LogContext.of(end < 1 ? name : name.substring(1, end), rank);
    }

    public void rename(String newName) {
        name = newName;
    }

    /** Returns why it has failed, or null; never waits. */
    String failure() {
        return failureState.failure();
    }

    /** Never waits: a lookup of a file whose writer waits must go through. */
    public long size() {
        return size;
    }

    // ---- FUSE's threads ---------------------------------------------------------------------------------------

    /**
     * Takes bytes from native memory, waiting for receive slots and chunks as it must.
     *
     * @return {@code lengthBytes}, or a negated errno
     */
    public int write(long address, int lengthBytes, long offset) {
        activity.begin();
        lock.lock();
        try {
            requireNotEnded();
            int taken = 0;
            while (taken < lengthBytes && failureState.failure() == null) {
                int step = takeNext(address + taken, lengthBytes - taken, offset + taken);
                if (step < 0 && !failureState.mayDiscard()) {
                    return step;
                }
                if (step < 0) {
                    failImage(
                            step == Errno.ENOSPC.negated()
                                    ? "the target has no room for a write at " + (offset + taken)
                                    : "a write at " + (offset + taken) + " was broken off");
                }
                taken += Math.max(0, step);
            }
            return taken == lengthBytes ? taken : acceptAndDiscard(lengthBytes, offset);
        } catch (IOException e) {
            if (!failureState.mayDiscard()) {
                logContext().logging(() -> LOG.warn("file {}: a write fails: {}", name, e.getMessage()));
                return Errno.EIO.negated();
            }
            failImage("a write fails: " + e.getMessage());
            return acceptAndDiscard(lengthBytes, offset);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return Errno.EINTR.negated();
        } finally {
            lock.unlock();
            activity.end();
        }
    }

    /** Cuts or extends the file. */
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

    /** Sends what is gathered; a descriptor was closed. */
    public void flush() throws IOException {
        change(this::sendGathered, () -> {
            // No bytes are gathered now.
        });
    }

    /** Returns when everything written so far is with the target. */
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

    /** A handle was opened. */
    public void opened() {
        lock.lock();
        try {
            openHandles++;
        } finally {
            lock.unlock();
        }
    }

    /** A handle was released; with the last one everything is sent, unless the image is no longer wanted. */
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
            // The kernel releases a handle some time after its process has ended: the connection may be closed by now.
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
     * Waits until the last handle is released and says that the file is whole: its checkpointer has reported success,
     * or has said that it writes this file no more. Nothing may be written afterwards. The second call does nothing.
     *
     * @param calledOff asked meanwhile; the wait ends with an exception when the image is no longer wanted
     * @return whether it was released in time
     */
    public boolean end(long deadlineNs, BooleanSupplier calledOff) throws IOException, InterruptedException {
        lock.lock();
        try {
            while (openHandles > 0 && failureState.failure() == null) {
                long leftNs = deadlineNs - System.nanoTime();
                if (leftNs <= 0) {
                    return false;
                }
                if (calledOff.getAsBoolean()) {
                    throw new IOException("file " + name + " was still open when the migration was called off");
                }
                changed.awaitNanos(Math.min(leftNs, LOOK_NS));
            }
            sendEnd();
            return true;
        } finally {
            lock.unlock();
        }
    }

    /** Says that the file is whole, though the kernel may not have told yet that its last handle is released. */
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
     * The session has failed, as the shared {@link ImageFailure} records: ends every wait, and gives back what is
     * gathered.
     */
    void wakeFailed() {
        lock.lock();
        try {
            supply.wake();
            if (chunk != BufferPool.NONE) {
                claims.giveUp(chunk);
                chunk = BufferPool.NONE;
            }
            changed.signalAll();
        } finally {
            lock.unlock();
        }
    }

    // ---- the session's agent ----------------------------------------------------------------------------------

    /**
     * The target granted a receive slot. Takes no lock, since its holder may wait for the agent to send something.
     *
     * @return false if the target grants more than was asked for
     */
    public boolean granted(long grantedWindow, int grantedSlot) {
        return supply.offerReply(grantedWindow, grantedSlot);
    }

    /** The target will not grant this receive slot; takes no lock. */
    public boolean denied(long deniedWindow) {
        return supply.offerReply(deniedWindow, CreditSupply.DENIED);
    }

    /**
     * Sends a chunk that has been gathered for long, and returns receive slots that no writer uses: a writer that
     * pauses holds nothing. Skips a file that is busy.
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

    private int takeNext(long address, int lengthBytes, long offset) throws IOException, InterruptedException {
        if (offset < HEAD_BYTES) {
            int bytes = (int) Math.min(lengthBytes, HEAD_BYTES - offset);
            outlet.sendPrefix(this, (int) offset, address, bytes);
            note(address, offset, bytes);
            return bytes;
        }
        long wanted = geometry.windowOf(offset);
        int at = geometry.offsetInWindow(offset);
        int bytes = Math.min(lengthBytes, geometry.chunkBytes() - at);
        if (chunk != BufferPool.NONE && (window != wanted || at > to || at + bytes < from)) {
            sendGathered();
        }
        if (chunk == BufferPool.NONE) {
            int begun = begin(wanted, at, offset);
            if (begun <= 0) {
                return begun;
            }
        }
        copyIn(address, pool.address(chunk) + at, bytes);
        boolean goesUp = offset == lastWriteEnd;
        from = Math.min(from, at);
        to = Math.max(to, at + bytes);
        note(address, offset, bytes);
        int first = wanted == 0 ? HEAD_BYTES : 0;
        if (to == geometry.chunkBytes() && (from == first || goesUp)) {
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

    private void note(long address, long offset, int bytes) {
        copy.write(address, bytes, offset);
        long end = offset + bytes;
        size = Math.max(size, end);
        lastWriteEnd = end;
        lastWriteNs = System.nanoTime();
    }

    /** Gets a receive slot and a chunk for a window: 1 if it has them, 0 to look again, or a negated errno. */
    private int begin(long wanted, int at, long offset) throws IOException, InterruptedException {
        CreditSupply.WaitResult answer = supply.await(wanted);
        if (answer != CreditSupply.WaitResult.GRANTED) {
            return answer == CreditSupply.WaitResult.DENIED ? Errno.ENOSPC.negated() : Errno.EIO.negated();
        }
        int claimed = claim();
        if (claimed < 0) {
            return Errno.EIO.negated();
        }
        if (failureState.failure() != null || chunk != BufferPool.NONE || !supply.hasCredit(wanted)) {
            // The lock was given up while the chunk was waited for.
            claims.giveUp(claimed);
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

    /**
     * Claims a chunk; if it must wait it gives up the lock, and has the agent flush those who hold chunks and
     * pause.
     */
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
     * Makes a change that is told to the target.
     *
     * @param unsent what is left of it when the image is no longer wanted
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
            throw new IOException("file " + name + " is changed after its checkpointer has said that it is whole");
        }
    }

    /** A call has failed, so the image can never be whole; where writes are thrown away the writer is not told. */
    private void failImage(String reason) {
        if (failureState.fail("file " + name + ": " + reason) && failureState.mayDiscard()) {
            logContext()
                    .logging(() -> LOG.warn(
                            "file {}: {}; the attempt has failed, and what is still written in it is thrown away: its"
                                    + " checkpointer writes from inside the process, which an error could end",
                            name,
                            reason));
        }
    }

    /** The answer to a write after the failure: the file has the size that it would have. */
    private int acceptAndDiscard(int lengthBytes, long offset) {
        if (!failureState.discards()) {
            return Errno.EIO.negated();
        }
        size = Math.max(size, offset + lengthBytes);
        return lengthBytes;
    }

    /** The CRC32C of a part of a chunk that is being sent; for the thread that does so. */
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
        int sealed = chunk;
        chunk = BufferPool.NONE;
        pool.ready(sealed);
        long offset = window * geometry.chunkBytes() + from;
        try {
            outlet.sendChunk(this, sealed, from, offset, to - from, slot, chunkSinceNs);
        } catch (IOException e) {
            // What was taken from the writer is lost: the file can never be whole.
            failImage(String.valueOf(e.getMessage()));
            throw e;
        }
    }
}
