package io.ppmr.target.image;

import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.protocol.data.FilePrefixFrame;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import org.agrona.BufferUtil;
import org.agrona.UnsafeApi;
import org.agrona.concurrent.UnsafeBuffer;

/** A file, slots that receive its bytes as from the session's agent and the transport, and its readers. */
final class ImageFixture implements ImageListener {
    static final int CHUNK_BYTES = 16 * 1024;
    static final int HEAD_BYTES = FilePrefixFrame.PREFIX_BYTES;
    static final long DEADLINE_NS = TimeUnit.SECONDS.toNanos(60L * Integer.getInteger("ppmr.patience", 1));

    final PoolGeometry geometry;
    final RankImage rank;
    final Staging staging;
    final ArrivingFile file;
    final List<ReceiveSlot> free = new ArrayList<>();
    final AtomicInteger granted = new AtomicInteger();
    final AtomicInteger seeksRefused = new AtomicInteger();
    final AtomicInteger uncovered = new AtomicInteger();
    final List<Integer> uncoveredWhenFreed = new ArrayList<>();
    final AtomicInteger stagingFreed = new AtomicInteger();
    final List<String> stagingFailures = new ArrayList<>();
    final AtomicInteger waits = new AtomicInteger();
    final AtomicLong bytesRead = new AtomicLong();
    private final BufferPool pool;
    private final Map<ReceiveSlot, Long> offsets = new HashMap<>();
    private final Map<ReceiveSlot, byte[]> underWay = new HashMap<>();
    private final ByteBuffer headMemory = ByteBuffer.allocateDirect(HEAD_BYTES);
    private int nextIndex;

    ImageFixture(boolean streamed) {
        this(streamed, 64);
    }

    ImageFixture(boolean streamed, int chunks) {
        this(streamed, chunks, new Staging(Path.of("/dev/shm"), 64L * CHUNK_BYTES));
    }

    ImageFixture(boolean streamed, Staging staging) {
        this(streamed, 64, staging);
    }

    private ImageFixture(boolean streamed, int chunks, Staging staging) {
        geometry = new PoolGeometry(CHUNK_BYTES, chunks);
        pool = new BufferPool(geometry);
        rank = new RankImage(0, name -> streamed);
        this.staging = staging;
        file = new ArrivingFile(1, "/m.1/rank-0/f", rank, geometry, BufferUtil.address(headMemory), staging, this);
    }

    // ---- actions of the agent -----------------------------------------------------------------------------------

    /** Returns a slot for a window: a bounce buffer if the window has a holder. */
    ReceiveSlot grant(long window) {
        ReceiveSlot slot = make();
        ReceiveSlots.grant(slot, ReceiveSlot.SlotKind.BOUNCE, file, window);
        if (!file.addPiece(slot)) {
            if (file.streamed()) {
                ReceiveSlots.grant(slot, ReceiveSlot.SlotKind.GENERAL, file, window);
                file.hold(slot);
            } else {
                slot.grantStaged(ReceiveSlot.SlotKind.GENERAL, file, window, 0);
            }
        }
        return slot;
    }

    ReceiveSlot make() {
        int chunk = pool.tryClaim();
        granted.incrementAndGet();
        int index = nextIndex++;
        return ReceiveSlots.make(index, chunk, pool.address(chunk));
    }

    /** Advertises bytes of one window. */
    ReceiveSlot advertise(long offset, byte[] bytes) throws ImageException {
        ReceiveSlot slot = grant(geometry.windowOf(offset));
        advertise(slot, offset, bytes);
        return slot;
    }

    void advertise(ReceiveSlot slot, long offset, byte[] bytes) throws ImageException {
        underWay.put(slot, bytes);
        offsets.put(slot, offset);
        file.onPieceAnnounced(slot, offset, bytes.length);
    }

    /** Ends the pull of an advertised slot. */
    void arrive(ReceiveSlot slot) {
        byte[] bytes = underWay.remove(slot);
        long to = slot.address() + geometry.offsetInWindow(offsets.remove(slot));
        for (int i = 0; i < bytes.length; i++) {
            UnsafeApi.putByte(to + i, bytes[i]);
        }
        file.onArrived(slot);
    }

    /** Delivers bytes of one window. */
    ReceiveSlot bring(long offset, byte[] bytes) throws ImageException {
        ReceiveSlot slot = advertise(offset, bytes);
        arrive(slot);
        return slot;
    }

    void head(int position, byte[] bytes) throws ImageException {
        UnsafeBuffer frame = new UnsafeBuffer(ByteBuffer.allocateDirect(FilePrefixFrame.DATA_OFFSET + bytes.length));
        FilePrefixFrame.encode(frame, 0, 1, file.id(), position, bytes.length);
        frame.putBytes(FilePrefixFrame.DATA_OFFSET, bytes);
        file.onPrefixArrived(new FilePrefixFrame().wrap(frame, 0));
    }

    // ---- readers ----------------------------------------------------------------------------------------------

    /** The result of a read: the bytes, or a negated errno. */
    static final class Got {
        private final int result;
        private final byte[] bytes;

        private Got(int result, byte[] bytes) {
            this.result = result;
            this.bytes = bytes;
        }

        int result() {
            return result;
        }

        byte[] bytes() {
            return bytes;
        }
    }

    Got read(long offset, int lengthBytes) {
        ByteBuffer into = ByteBuffer.allocateDirect(Math.max(1, lengthBytes));
        int result = file.read(BufferUtil.address(into), lengthBytes, offset);
        byte[] bytes = new byte[Math.max(0, result)];
        into.get(0, bytes);
        return new Got(result, bytes);
    }

    /** Reads on a separate thread. */
    CompletableFuture<Got> readLater(long offset, int lengthBytes) {
        CompletableFuture<Got> got = new CompletableFuture<>();
        Thread thread = new Thread(() -> got.complete(read(offset, lengthBytes)), "reader");
        thread.setDaemon(true);
        thread.start();
        return got;
    }

    /** Starts a read and returns when the reader waits: in the file, for its rank, and as the listener was notified. */
    CompletableFuture<Got> readAndWait(long offset, int lengthBytes) {
        int before = waits.get();
        CompletableFuture<Got> got = readLater(offset, lengthBytes);
        until(
                "the reader waits",
                () -> waits.get() > before && file.readerWaitsIn(geometry.windowOf(offset)) && rank.hasWaitingReader());
        return got;
    }

    static Got get(CompletableFuture<Got> got) throws Exception {
        return got.get(DEADLINE_NS, TimeUnit.NANOSECONDS);
    }

    static void until(String what, BooleanSupplier condition) {
        long deadlineNs = System.nanoTime() + DEADLINE_NS;
        while (!condition.getAsBoolean()) {
            if (System.nanoTime() - deadlineNs >= 0) {
                throw new AssertionError("not in time: " + what);
            }
            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(1));
        }
    }

    /** Bytes that differ between positions. */
    static byte[] bytes(int seed, int lengthBytes) {
        byte[] bytes = new byte[lengthBytes];
        for (int i = 0; i < lengthBytes; i++) {
            bytes[i] = (byte) (seed * 31 + i * 7 + i / 251 + 1);
        }
        return bytes;
    }

    // ---- events of the file ------------------------------------------------------------------------------------

    @Override
    public void slotFree(ReceiveSlot slot) {
        if (free.contains(slot)) {
            throw new AssertionError(slot + " was freed twice");
        }
        free.add(slot);
        uncoveredWhenFreed.add(uncovered.get());
        pool.releaseUnused(slot.chunk());
    }

    @Override
    public void stagingFree() {
        stagingFreed.incrementAndGet();
    }

    @Override
    public void stagingFailed(ArrivingFile failed, String reason) {
        stagingFailures.add(reason);
    }

    @Override
    public void readerWaits(ArrivingFile waitedFor) {
        waits.incrementAndGet();
    }

    @Override
    public void readerWaited(ArrivingFile file, long tookNs) {
        assertTrue(tookNs >= 0);
    }

    @Override
    public void uncoveredStreams(int change) {
        uncovered.addAndGet(change);
    }

    @Override
    public void bytesRead(long bytes) {
        bytesRead.addAndGet(bytes);
    }

    @Override
    public void seekRefused(ArrivingFile refusedBy, long offset) {
        seeksRefused.incrementAndGet();
    }
}
