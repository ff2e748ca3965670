package io.ppmr.target.image;

import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.protocol.data.DenyReason;
import io.ppmr.protocol.data.FilePrefixFrame;
import io.ppmr.protocol.data.ProtocolException;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import org.agrona.BufferUtil;
import org.agrona.concurrent.UnsafeBuffer;

/** A ledger, files that request its slots, and its decisions. */
final class LedgerFixture implements CreditLedger.Decisions, ImageListener, AutoCloseable {
    static final int CHUNK_BYTES = 16 * 1024;
    static final int BOUNCE_BUFFERS = 2;

    record Granted(ArrivingFile file, ReceiveSlot slot) {}

    record Denied(ArrivingFile file, long window, DenyReason reason, String message) {}

    final PoolGeometry geometry;
    final BufferPool pool;
    final Staging staging;
    final CreditLedger ledger;
    final List<Granted> granted = new ArrayList<>();
    final List<Denied> denied = new ArrayList<>();
    final ConcurrentLinkedQueue<ReceiveSlot> free = new ConcurrentLinkedQueue<>();
    private final AtomicInteger uncovered = new AtomicInteger();
    private final List<ArrivingFile> files = new ArrayList<>();
    private final List<Thread> readers = new ArrayList<>();
    private final List<ByteBuffer> heads = new ArrayList<>();

    LedgerFixture(int chunks, long stagingLimitBytes, int expectedStreams) {
        geometry = new PoolGeometry(CHUNK_BYTES, chunks);
        pool = new BufferPool(geometry.plus(BOUNCE_BUFFERS));
        staging = new Staging(Path.of("/dev/shm"), stagingLimitBytes);
        ledger = new CreditLedger(pool, BOUNCE_BUFFERS, staging, expectedStreams, uncovered::get, this);
    }

    ArrivingFile file(RankImage rank) {
        ByteBuffer head = ByteBuffer.allocateDirect(4096);
        heads.add(head);
        int id = files.size() + 1;
        ArrivingFile file =
                new ArrivingFile(id, "/m.1/f" + id, rank, geometry, BufferUtil.address(head), staging, this);
        files.add(file);
        ledger.fileCreated(file);
        bringHead(file);
        return file;
    }

    /** Requests like the first request of a sequential writer. */
    private static void bringHead(ArrivingFile file) {
        int lengthBytes = FilePrefixFrame.PREFIX_BYTES;
        UnsafeBuffer frame = new UnsafeBuffer(ByteBuffer.allocateDirect(FilePrefixFrame.DATA_OFFSET + lengthBytes));
        FilePrefixFrame.encode(frame, 0, 1, file.id(), 0, lengthBytes);
        try {
            file.onPrefixArrived(new FilePrefixFrame().wrap(frame, 0));
        } catch (ImageException e) {
            throw new AssertionError(e);
        }
    }

    /** Returns the grants since the last call. */
    List<Granted> takeGranted() {
        List<Granted> taken = List.copyOf(granted);
        granted.clear();
        return taken;
    }

    /** Returns the slots that were granted since the last call. */
    List<ReceiveSlot> takeSlots() {
        return takeGranted().stream().map(Granted::slot).toList();
    }

    /** Advertises and delivers a credit's whole window, except for the prefix in the first one. */
    void fill(ArrivingFile file, ReceiveSlot slot) throws ProtocolException, ImageException {
        long start = Math.max(4096, slot.window() * CHUNK_BYTES);
        bring(file, slot, start, (int) ((slot.window() + 1) * CHUNK_BYTES - start));
    }

    void bring(ArrivingFile file, ReceiveSlot slot, long offset, int lengthBytes)
            throws ProtocolException, ImageException {
        advertise(file, slot, offset, lengthBytes);
        file.onArrived(slot);
    }

    void advertise(ArrivingFile file, ReceiveSlot slot, long offset, int lengthBytes)
            throws ProtocolException, ImageException {
        ledger.onAdvertised(file, slot.index(), offset, lengthBytes);
        file.onPieceAnnounced(slot, offset, lengthBytes);
    }

    /** Passes freed slots to the ledger, like the agent. */
    int passOnFreed() {
        int count = 0;
        for (ReceiveSlot slot = free.poll(); slot != null; slot = free.poll()) {
            ledger.onSlotFree(slot);
            count++;
        }
        return count;
    }

    int read(ArrivingFile file, long offset, int lengthBytes) {
        ByteBuffer into = ByteBuffer.allocateDirect(lengthBytes);
        return file.read(BufferUtil.address(into), lengthBytes, offset);
    }

    /** Starts a reader that waits for a missing byte. */
    void waitingReader(ArrivingFile file, long offset) {
        Thread thread = new Thread(() -> read(file, offset, 1), "reader");
        thread.setDaemon(true);
        readers.add(thread);
        thread.start();
        long deadlineNs = System.nanoTime() + TimeUnit.SECONDS.toNanos(60L * Integer.getInteger("ppmr.patience", 1));
        while (!file.readerWaitsIn(geometry.windowOf(offset)) || !file.rank().hasWaitingReader()) {
            if (System.nanoTime() - deadlineNs >= 0) {
                throw new AssertionError("the reader does not wait");
            }
            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(1));
        }
    }

    @Override
    public void close() {
        files.forEach(file -> file.fail("the test is over"));
        for (Thread reader : readers) {
            try {
                reader.join(60_000);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }
        files.forEach(ArrivingFile::discard);
    }

    @Override
    public void granted(ArrivingFile file, ReceiveSlot slot) {
        granted.add(new Granted(file, slot));
    }

    @Override
    public void denied(ArrivingFile file, long window, DenyReason reason, String message) {
        denied.add(new Denied(file, window, reason, message));
    }

    @Override
    public void slotFree(ReceiveSlot slot) {
        free.add(slot);
    }

    @Override
    public void stagingFailed(ArrivingFile file, String reason) {
        throw new AssertionError(reason);
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
    public void seekRefused(ArrivingFile file, long offset) {}
}
