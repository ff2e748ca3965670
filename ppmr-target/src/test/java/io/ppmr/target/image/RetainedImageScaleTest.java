package io.ppmr.target.image;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.protocol.data.CreditRequestFrame;
import io.ppmr.protocol.data.DenyReason;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Path;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import org.agrona.BufferUtil;
import org.agrona.UnsafeApi;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/**
 * A retained image that spans 1 TiB, without the mount and the network: windows are granted, arrive, are staged and
 * read. Only the first page of each window arrives, so that the test has enough memory.
 */
class RetainedImageScaleTest {
    private static final int CHUNK_BYTES = 128 << 10;
    /** The size of the whole image. */
    private static final int WINDOWS = 1 << 23;

    private static final int PIECE_BYTES = 4096;
    private static final long MIB = 1 << 20;
    private static final long TIB = 1L << 40;
    /** The maximum remaining heap for any size of the image: a few bytes for each 32 MiB, and noise. */
    private static final long HEAP_BYTES = 4 * MIB;

    private static final long SEED = System.nanoTime();

    @Test
    void shouldStoreEachWindowInOrder() throws Exception {
        run(order(WINDOWS / 128, false));
    }

    @Test
    void shouldStoreEachScatteredWindow() throws Exception {
        run(order(WINDOWS / 128, true));
    }

    @Test
    @Tag("soak")
    void shouldStoreTwoMillionWindowsInOrder() throws Exception {
        run(order(WINDOWS / 4, false));
    }

    @Test
    @Tag("soak")
    void shouldStoreTwoMillionScatteredWindows() throws Exception {
        run(order(WINDOWS / 4, true));
    }

    private static int[] order(int windows, boolean scattered) {
        int[] order = new int[windows];
        for (int i = 0; i < windows; i++) {
            order[i] = i * (WINDOWS / windows);
        }
        if (scattered) {
            System.out.println("seed " + SEED);
            Random random = new Random(SEED);
            for (int i = windows - 1; i > 0; i--) {
                int other = random.nextInt(i + 1);
                int moved = order[i];
                order[i] = order[other];
                order[other] = moved;
            }
        }
        return order;
    }

    private void run(int[] order) throws Exception {
        ByteBuffer head = ByteBuffer.allocateDirect(4096);
        ByteBuffer piece = ByteBuffer.allocateDirect(PIECE_BYTES).order(ByteOrder.nativeOrder());
        PoolGeometry geometry = new PoolGeometry(CHUNK_BYTES, 64);
        BufferPool pool = new BufferPool(geometry.plus(8));
        Staging staging = new Staging(Path.of("/dev/shm"), 2 * TIB);
        try (Agent agent = new Agent(pool, staging)) {
            ArrivingFile file = new ArrivingFile(
                    1,
                    "/m.1/rank-0/f",
                    new RankImage(0, name -> false),
                    geometry,
                    BufferUtil.address(head),
                    staging,
                    agent);
            agent.ledger.fileCreated(file);
            long heapBefore = heapBytes();
            for (int window : order) {
                // The prefix of a file does not go to staging.
                agent.bring(file, window + 1L);
            }
            long grownBytes = heapBytes() - heapBefore;
            assertTrue(grownBytes < HEAP_BYTES, "the heap has grown by " + grownBytes + " bytes");
            long mapBytes = staging.mapBytes();
            assertTrue(mapBytes <= Staging.mapBytes(TIB) + 1024, "the map takes " + mapBytes);
            assertEquals(order.length * (long) PIECE_BYTES, staging.usedBytes());
            long startNs = System.nanoTime();
            for (int window : order) {
                int read = file.read(BufferUtil.address(piece), Long.BYTES, (window + 1L) * CHUNK_BYTES);
                if (read != Long.BYTES || piece.getLong(0) != window + 1L) {
                    throw new AssertionError("window " + (window + 1L) + " reads as " + piece.getLong(0));
                }
            }
            System.out.println(order.length + " windows: " + mapBytes / 1024 + " KiB of map, " + grownBytes
                    + " bytes of heap, a read " + (System.nanoTime() - startNs) / order.length + " ns");
            file.discard();
            assertEquals(0, staging.usedBytes());
            assertEquals(0, staging.mapBytes());
        }
    }

    private static long heapBytes() {
        System.gc();
        return ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed();
    }

    /** Acts as a session's agent and its transport, on one thread. */
    private static final class Agent implements CreditLedger.Decisions, ImageListener, AutoCloseable {
        private final CreditLedger ledger;
        private final BufferPool pool;
        private ReceiveSlot granted;

        Agent(BufferPool pool, Staging staging) {
            this.pool = pool;
            ledger = new CreditLedger(pool, 8, staging, 0, () -> 0, this);
        }

        void bring(ArrivingFile file, long window) throws Exception {
            granted = null;
            ledger.requestCredits(file, window, 1, CreditRequestFrame.BLOCKED);
            if (granted == null) {
                throw new AssertionError("window " + window + " is not granted");
            }
            ReceiveSlot slot = granted;
            ledger.onAdvertised(file, slot.index(), window * CHUNK_BYTES, PIECE_BYTES);
            file.onPieceAnnounced(slot, window * CHUNK_BYTES, PIECE_BYTES);
            UnsafeApi.putLong(slot.address(), window);
            file.onArrived(slot);
        }

        @Override
        public void granted(ArrivingFile file, ReceiveSlot slot) {
            granted = slot;
        }

        @Override
        public void denied(ArrivingFile file, long window, DenyReason reason, String message) {
            throw new AssertionError(message);
        }

        @Override
        public void slotFree(ReceiveSlot slot) {
            ledger.onSlotFree(slot);
        }

        @Override
        public void stagingFailed(ArrivingFile file, String reason) {
            throw new AssertionError(reason);
        }

        @Override
        public void readerWaits(ArrivingFile file) {
            throw new AssertionError("all bytes that are read here arrived");
        }

        @Override
        public void readerWaited(ArrivingFile file, long tookNs) {
            throw new AssertionError(
                    "all bytes that are read here arrived after " + TimeUnit.NANOSECONDS.toMillis(tookNs));
        }

        @Override
        public void uncoveredStreams(int change) {
            // There is no stream.
        }

        @Override
        public void seekRefused(ArrivingFile file, long offset) {
            throw new AssertionError("a retained image is read in any order");
        }

        @Override
        public void close() {
            ledger.reclaimAll();
            assertEquals(pool.geometry().chunkCount(), pool.freeChunks());
        }
    }
}
