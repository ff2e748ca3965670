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
import java.util.Random;
import java.util.concurrent.TimeUnit;
import org.agrona.BufferUtil;
import org.agrona.UnsafeApi;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/**
 * A retained image of 1 TiB, all of it but the mount and the network: 8.4 million windows are granted, come, rest in
 * staging and are read. Only the first bytes of each window are there, and staging has memory for those alone.
 */
class RetainedImageScaleTest {
    private static final int CHUNK_BYTES = 128 << 10;
    private static final int WINDOWS = 1 << 23;
    private static final int PIECE_BYTES = Long.BYTES;
    private static final long MIB = 1 << 20;
    private static final long INDEX_LIMIT_BYTES = 128 * MIB;
    private static final long TIB = 1L << 40;
    /** The most that may be left on the heap, whatever the size of the image: one bit a place, and noise. */
    private static final long HEAP_BYTES = 4 * MIB;

    private static final long SEED = System.nanoTime();

    @Test
    void shouldKnowEachWindowWhenAThirtysecondOfATebibyteCameInOrder() throws Exception {
        run(order(WINDOWS / 32, false));
    }

    @Test
    void shouldKnowEachWindowWhenAThirtysecondOfATebibyteCameScattered() throws Exception {
        run(order(WINDOWS / 32, true));
    }

    @Test
    @Tag("soak")
    void shouldKnowEachWindowWhenATebibyteCameInOrder() throws Exception {
        run(order(WINDOWS, false));
    }

    @Test
    @Tag("soak")
    void shouldKnowEachWindowWhenATebibyteCameScattered() throws Exception {
        run(order(WINDOWS, true));
    }

    /** The same without what grants and brings windows, which takes seconds. */
    @Test
    void shouldKnowEachOfATebibytesWindowsThatCameInOrder() {
        index(order(WINDOWS, false));
    }

    @Test
    void shouldKnowEachOfATebibytesWindowsThatCameScattered() {
        index(order(WINDOWS, true));
    }

    @Test
    void shouldReckonNoLessThanAnImageTakes() {
        assertTrue(StagingArea.indexBytes(TIB, CHUNK_BYTES) <= INDEX_LIMIT_BYTES);
        for (int windows : new int[] {1, 64, 65, 4096, 4097, 300_000}) {
            long reckonedBytes = StagingArea.indexBytes((long) windows * CHUNK_BYTES, CHUNK_BYTES);
            try (IndexMemory memory = new IndexMemory(reckonedBytes)) {
                PoolGeometry geometry = new PoolGeometry(CHUNK_BYTES, 4);
                WindowIndex index = new WindowIndex(memory, geometry, place -> {});
                Extents extents = new Extents(slot -> {});
                ReceiveSlot slot = new ReceiveSlot();
                for (int window = windows - 1; window >= 0; window--) {
                    assertTrue(memory.hasRoom(), windows + " windows do not fit " + reckonedBytes + " bytes");
                    rest(index, extents, slot, window, window);
                }
            }
        }
    }

    private static int[] order(int windows, boolean scattered) {
        int[] order = new int[windows];
        for (int i = 0; i < windows; i++) {
            order[i] = i;
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

    private static void rest(WindowIndex index, Extents extents, ReceiveSlot slot, long window, int place) {
        long start = window * CHUNK_BYTES;
        extents.put(start, start + CHUNK_BYTES, slot);
        assertTrue(index.put(window, place, extents));
        extents.forget(start, start + CHUNK_BYTES);
    }

    private static void index(int[] order) {
        PoolGeometry geometry = new PoolGeometry(CHUNK_BYTES, 4);
        try (IndexMemory memory = new IndexMemory(INDEX_LIMIT_BYTES)) {
            WindowIndex index = new WindowIndex(memory, geometry, place -> {});
            Extents extents = new Extents(slot -> {});
            ReceiveSlot slot = new ReceiveSlot();
            long heapBefore = heapBytes();
            for (int place = 0; place < order.length; place++) {
                rest(index, extents, slot, order[place], place);
            }
            long grownBytes = heapBytes() - heapBefore;
            assertTrue(grownBytes < HEAP_BYTES, "the heap has grown by " + grownBytes + " bytes");
            assertTrue(memory.takenBytes() <= INDEX_LIMIT_BYTES, "the index takes " + memory.takenBytes());
            long startNs = System.nanoTime();
            for (int place = 0; place < order.length; place++) {
                long offset = (long) order[place] * CHUNK_BYTES + place % CHUNK_BYTES;
                if (!index.find(offset)
                        || index.foundPlace() != place
                        || index.foundBytes(offset) != CHUNK_BYTES - place % CHUNK_BYTES) {
                    throw new AssertionError("window " + order[place] + " is not found at " + place);
                }
            }
            System.out.println(order.length + " windows: " + memory.takenBytes() / MIB + " MiB of index, " + grownBytes
                    + " bytes of heap, a lookup " + (System.nanoTime() - startNs) / order.length + " ns");
        }
    }

    /** Memory in which each place of staging has room for one piece, at its beginning. */
    private static final class FirstBytes implements StagingArea.Backing {
        private static final long REGION_BYTES = 1L << 30;

        private final long base = UnsafeApi.allocateMemory(REGION_BYTES + CHUNK_BYTES);

        @Override
        public long extend(long start, int lengthBytes) {
            return base + start % REGION_BYTES + start / REGION_BYTES * PIECE_BYTES;
        }

        @Override
        public void close() {
            UnsafeApi.freeMemory(base);
        }
    }

    private void run(int[] order) throws Exception {
        ByteBuffer head = ByteBuffer.allocateDirect(4096);
        ByteBuffer piece = ByteBuffer.allocateDirect(PIECE_BYTES).order(ByteOrder.nativeOrder());
        PoolGeometry geometry = new PoolGeometry(CHUNK_BYTES, 64);
        BufferPool pool = new BufferPool(geometry.plus(8));
        try (StagingArea staging = new StagingArea("the test", geometry, 2 * TIB, INDEX_LIMIT_BYTES, new FirstBytes());
                Agent agent = new Agent(pool, staging)) {
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
                // The head of a file does not go to staging.
                agent.bring(file, window + 1L);
            }
            long grownBytes = heapBytes() - heapBefore;
            assertTrue(grownBytes < HEAP_BYTES, "the heap has grown by " + grownBytes + " bytes");
            assertTrue(staging.indexBytes() <= INDEX_LIMIT_BYTES, "the index takes " + staging.indexBytes());
            assertEquals((order.length - 64L) * CHUNK_BYTES, staging.usedBytes());
            long startNs = System.nanoTime();
            for (int window : order) {
                int read = file.read(BufferUtil.address(piece), PIECE_BYTES, (window + 1L) * CHUNK_BYTES);
                if (read != PIECE_BYTES || piece.getLong(0) != window + 1L) {
                    throw new AssertionError("window " + (window + 1L) + " reads as " + piece.getLong(0));
                }
            }
            System.out.println(order.length + " windows: " + staging.indexBytes() / MIB + " MiB of index, " + grownBytes
                    + " bytes of heap, a read " + (System.nanoTime() - startNs) / order.length + " ns");
            file.discard();
            assertEquals(0, staging.usedBytes());
        }
    }

    private static long heapBytes() {
        System.gc();
        return ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed();
    }

    /** Does what a session's agent and its transport do, on one thread. */
    private static final class Agent implements CreditLedger.Decisions, ImageListener, AutoCloseable {
        private final CreditLedger ledger;
        private final BufferPool pool;
        private ReceiveSlot granted;

        Agent(BufferPool pool, StagingArea staging) {
            this.pool = pool;
            ledger = new CreditLedger(pool, 8, staging, 0, () -> 0, this);
        }

        void bring(ArrivingFile file, long window) throws Exception {
            granted = null;
            ledger.want(file, window, 1, CreditRequestFrame.BLOCKED);
            if (granted == null) {
                throw new AssertionError("window " + window + " is not granted");
            }
            ReceiveSlot slot = granted;
            ledger.advertised(file, slot.index(), window * CHUNK_BYTES, PIECE_BYTES);
            file.advertised(slot, window * CHUNK_BYTES, PIECE_BYTES);
            UnsafeApi.putLong(slot.address(), window);
            file.arrived(slot);
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
            ledger.freed(slot);
        }

        @Override
        public void indexFull(ArrivingFile file) {
            throw new AssertionError("the index is full");
        }

        @Override
        public void readerWaits(ArrivingFile file) {
            throw new AssertionError("what is read here has come");
        }

        @Override
        public void readerWaited(ArrivingFile file, long tookNs) {
            throw new AssertionError("what is read here has come after " + TimeUnit.NANOSECONDS.toMillis(tookNs));
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
