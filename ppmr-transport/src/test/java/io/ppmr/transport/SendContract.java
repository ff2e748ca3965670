package io.ppmr.transport;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.protocol.data.ChunkFrame;
import io.ppmr.protocol.data.ProtocolException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/**
 * Tests the contract of every transport whose source sends. Each transport runs the same suite and provides its ends.
 */
@Timeout(value = 120, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
public abstract class SendContract {
    protected static final int CHUNK_BYTES = 64 * 1024;
    protected static final int CHUNKS = 16;
    protected static final int ATTEMPT = 5;
    private static final long LONG_S = 60L * Integer.getInteger("ppmr.patience", 1);

    protected final BufferPool sourcePool = new BufferPool(new PoolGeometry(CHUNK_BYTES, CHUNKS));
    protected final BufferPool targetPool = new BufferPool(new PoolGeometry(CHUNK_BYTES, CHUNKS));
    protected final List<String> failures = new CopyOnWriteArrayList<>();
    protected final Semaphore[] released = new Semaphore[CHUNKS];
    protected final Taken taken = new Taken();
    protected ChunkSender sender;
    protected ChunkReceiver receiver;

    /** Two connected ends over these pools, whose chunks keep their order. */
    public record Ends(ChunkSender sender, ChunkReceiver receiver) {}

    protected abstract Ends join(BufferPool source, BufferPool target, Arrivals arrivals, Consumer<String> onFailure)
            throws Exception;

    /** Returns the number of repetitions of the repeated tests. */
    protected abstract int rounds(int most);

    /** Part of the source's error after the target closed. */
    protected abstract String closedByTarget();

    /** Accepts each chunk into its slot, and records the arrivals. */
    protected final class Taken implements Arrivals {
        private final ConcurrentLinkedQueue<String> order = new ConcurrentLinkedQueue<>();
        private final Map<Integer, byte[]> bytes = new ConcurrentHashMap<>();
        private final List<String> broken = new CopyOnWriteArrayList<>();
        private final AtomicInteger count = new AtomicInteger();
        private volatile CountDownLatch held = new CountDownLatch(0);
        private volatile int bad = -1;
        private volatile int refused = CHUNKS;

        /** Blocks all arrivals until {@link #unblock}. */
        public void hold() {
            held = new CountDownLatch(1);
        }

        public void unblock() {
            held.countDown();
        }

        /** The slot that is not granted. */
        public void refuse(int slot) {
            refused = slot;
        }

        /** This many chunks are accepted as correct, and the next one is not. */
        public void spoil(int good) {
            bad = good;
        }

        public int count() {
            return count.get();
        }

        /** Returns the arrived source chunks, in their order. */
        public String order() {
            return String.join("", order);
        }

        public List<String> onProtocolError() {
            return broken;
        }

        /** Returns the last arrival for a slot. */
        public byte[] bytes(int slot) {
            return bytes.get(slot);
        }

        @Override
        public ByteBuffer onChunkStart(ChunkFrame chunk) throws ProtocolException {
            if (chunk.slot() < 0 || chunk.slot() >= CHUNKS || chunk.slot() == refused) {
                throw new ProtocolException("slot " + chunk.slot() + " is not granted");
            }
            try {
                if (!held.await(3 * LONG_S, TimeUnit.SECONDS)) {
                    throw new AssertionError("the test does not unblock the target");
                }
            } catch (InterruptedException e) {
                throw new AssertionError(e);
            }
            int at = targetPool.geometry().offsetInWindow(chunk.offset());
            return targetPool
                    .buffer(chunk.slot())
                    .limit(at + chunk.lengthBytes())
                    .position(at);
        }

        @Override
        public boolean onChunkEnd(ChunkFrame chunk) {
            int at = targetPool.geometry().offsetInWindow(chunk.offset());
            byte[] got = new byte[chunk.lengthBytes()];
            targetPool.buffer(chunk.slot()).get(at, got);
            bytes.put(chunk.slot(), got);
            order.add(chunk.sourceChunk() + " ");
            return count.getAndIncrement() != bad;
        }

        @Override
        public void onProtocolError(String reason) {
            broken.add(reason);
        }

        @Override
        public void onPullCompleted(long pullId) {
            throw new AssertionError("this transport does not pull");
        }

        @Override
        public void onPullFailed(long pullId, String reason) {
            throw new AssertionError("this transport does not pull");
        }
    }

    @BeforeEach
    void fill() {
        byte[] bytes = new byte[CHUNKS * CHUNK_BYTES];
        new Random(3).nextBytes(bytes);
        sourcePool.region().duplicate().put(bytes);
        for (int chunk = 0; chunk < CHUNKS; chunk++) {
            released[chunk] = new Semaphore(0);
        }
    }

    @AfterEach
    final void closeEnds() {
        taken.unblock();
        if (sender != null) {
            sender.close();
        }
        if (receiver != null) {
            receiver.close();
        }
    }

    protected final void open() throws Exception {
        Ends ends = join(sourcePool, targetPool, taken, failures::add);
        sender = ends.sender();
        receiver = ends.receiver();
        begin();
    }

    /** Counts the releases for the sender. */
    protected final void begin() {
        sender.begin(ATTEMPT, chunk -> {
            if (chunk < 0 || chunk >= CHUNKS) {
                throw new ProtocolException("chunk " + chunk + " is not under way");
            }
            released[chunk].release();
        });
    }

    protected static byte[] part(BufferPool pool, int chunk, int offset, int length) {
        byte[] bytes = new byte[length];
        pool.buffer(chunk).clear().get(offset, bytes);
        return bytes;
    }

    protected final void awaitRelease(int chunk) throws InterruptedException {
        assertTrue(
                released[chunk].tryAcquire(LONG_S, TimeUnit.SECONDS),
                () -> "chunk " + chunk + " does not come back: " + failures + taken.broken);
    }

    /** Sends a part of a chunk to the slot with the same number. */
    protected final void send(int chunk, int lengthBytes) throws IOException {
        sender.send(chunk, 0, lengthBytes, 1, (long) chunk * CHUNK_BYTES, chunk, 0, false);
    }

    @Test
    void shouldDeliverEveryByteAndReleaseEveryChunkOnceForAnyLength() throws Exception {
        bringEveryByte();
    }

    /** Many writers send at once; each byte must arrive at its position, and each chunk must be released once. */
    protected final void bringEveryByte() throws Exception {
        open();
        int windows = rounds(200);
        ExecutorService writers = Executors.newFixedThreadPool(CHUNKS);
        List<Future<Void>> ends = new ArrayList<>();
        for (int writer = 0; writer < CHUNKS; writer++) {
            int own = writer;
            ends.add(writers.submit(() -> {
                Random random = new Random(own);
                for (long window = 0; window < windows; window++) {
                    int at = random.nextInt(CHUNK_BYTES);
                    int length = 1 + random.nextInt(CHUNK_BYTES - at);
                    byte[] expected = part(sourcePool, own, at, length);
                    sender.send(own, at, length, own + 1, window * CHUNK_BYTES + at, own, 0, window % 2 == 0);
                    awaitRelease(own);
                    assertArrayEquals(expected, taken.bytes(own));
                }
                return null;
            }));
        }
        for (Future<Void> end : ends) {
            end.get(6 * LONG_S, TimeUnit.SECONDS);
        }
        writers.shutdown();
        assertEquals(CHUNKS * windows, taken.count());
        assertEquals(taken.count(), sender.operations());
        for (Semaphore left : released) {
            assertEquals(0, left.availablePermits(), "a chunk came back twice");
        }
        assertEquals(List.of(), failures);
        assertEquals(List.of(), taken.onProtocolError());
    }

    @Test
    void shouldNotBlockAWriterWhenTheTargetAcceptsNothing() throws Exception {
        open();
        taken.hold();
        for (int chunk = 0; chunk < CHUNKS; chunk++) {
            // A writer that waited for the target would wait forever.
            send(chunk, CHUNK_BYTES);
        }
        assertEquals(0, taken.count());
        taken.unblock();
        for (int chunk = 0; chunk < CHUNKS; chunk++) {
            awaitRelease(chunk);
            assertArrayEquals(part(sourcePool, chunk, 0, CHUNK_BYTES), taken.bytes(chunk));
        }
    }

    @Test
    void shouldSendEachChunkOnceAndWholeWhenAnotherWriterClaimsItAtOnce() throws Exception {
        sendEachChunkOnce();
    }

    /** Other writers claim a chunk as soon as it is released, while its previous writer may still be returning. */
    protected final void sendEachChunkOnce() throws Exception {
        BlockingQueue<Integer> free = new LinkedBlockingQueue<>(List.of(0, 1));
        Ends ends = join(sourcePool, targetPool, taken, failures::add);
        sender = ends.sender();
        receiver = ends.receiver();
        sender.begin(ATTEMPT, free::add);
        int rounds = rounds(5_000);
        ExecutorService writers = Executors.newFixedThreadPool(4);
        List<Future<Void>> done = new ArrayList<>();
        for (int writer = 0; writer < 4; writer++) {
            done.add(writers.submit(() -> {
                for (int round = 0; round < rounds; round++) {
                    Integer chunk = free.poll(LONG_S, TimeUnit.SECONDS);
                    assertNotNull(chunk, "no chunk comes back");
                    sender.send(chunk, round % 7, 1 + round % 300, 1, (long) round * CHUNK_BYTES, chunk, 0, true);
                }
                return null;
            }));
        }
        for (Future<Void> end : done) {
            end.get(6 * LONG_S, TimeUnit.SECONDS);
        }
        writers.shutdown();
        Loopback.until("all chunks were released", () -> free.size() == 2);
        assertEquals(4 * rounds, taken.count());
        assertEquals(List.of(), failures);
        assertEquals(List.of(), taken.onProtocolError());
    }

    @Test
    void shouldPublishAndReleaseNothingWhenAChunkIsForNoGrantedSlot() throws Exception {
        open();
        taken.refuse(3);
        send(3, 100);
        send(4, 100);
        Loopback.until(
                "the target reports the error", () -> taken.onProtocolError().size() == 1);
        assertTrue(
                taken.onProtocolError().get(0).contains("slot 3 is not granted"),
                taken.onProtocolError().get(0));
        assertEquals(0, taken.count());
        assertEquals(0, released[3].availablePermits() + released[4].availablePermits());
    }

    @Test
    void shouldReleaseAndAcceptNothingAfterAWrongChunk() throws Exception {
        open();
        taken.spoil(2);
        for (int chunk = 0; chunk < 3; chunk++) {
            send(chunk, 100);
        }
        awaitRelease(0);
        awaitRelease(1);
        Loopback.until("the third chunk arrived", () -> taken.count() == 3);
        send(3, 100);
        send(4, 100);
        assertFalse(released[2].tryAcquire(100, TimeUnit.MILLISECONDS));
        assertEquals(3, taken.count());
        // The session reports its failure; the connection stays open until then.
        assertEquals(List.of(), failures);
    }

    @Test
    void shouldReportOnceAndRefuseChunksWhenTheTargetCloses() throws Exception {
        open();
        receiver.close();
        Loopback.until("the source reports the error", () -> failures.size() == 1);
        assertTrue(failures.get(0).contains(closedByTarget()), failures.get(0));
        IOException refused = assertThrows(IOException.class, () -> send(0, 100));
        assertTrue(refused.getMessage().contains(closedByTarget()), refused.getMessage());
        sender.close();
        sender.close();
        assertEquals(1, failures.size());
    }

    @Test
    void shouldReportNothingWhenItIsClosedItself() throws Exception {
        open();
        sender.close();
        receiver.close();
        receiver.close();
        IOException refused = assertThrows(IOException.class, () -> send(0, 100));
        assertEquals("the transport was closed", refused.getMessage());
        assertEquals(List.of(), failures);
        assertEquals(List.of(), taken.onProtocolError());
    }
}
