package io.ppmr.transport.tcp;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.protocol.data.ChunkFrame;
import io.ppmr.protocol.data.Frame;
import io.ppmr.protocol.data.FrameType;
import io.ppmr.protocol.data.ProtocolException;
import io.ppmr.protocol.data.ReleaseFrame;
import io.ppmr.transport.Arrivals;
import io.ppmr.transport.Loopback;
import java.io.IOException;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
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
import org.agrona.concurrent.UnsafeBuffer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Chunks that are sent when they are full, over real sockets. */
class TcpSendTest {
    private static final int CHUNK_BYTES = 64 * 1024;
    private static final int CHUNKS = 16;
    private static final int ATTEMPT = 5;
    private static final int CONNECTIONS = 3;
    private static final int LITTLE_BYTES = 16 * 1024;

    private final BufferPool sourcePool = new BufferPool(new PoolGeometry(CHUNK_BYTES, CHUNKS));
    private final BufferPool targetPool = new BufferPool(new PoolGeometry(CHUNK_BYTES, CHUNKS));
    private final List<String> failures = new CopyOnWriteArrayList<>();
    private final Semaphore[] released = new Semaphore[CHUNKS];
    private final Taken taken = new Taken();
    private final List<Loopback> pairs = new ArrayList<>();
    private TcpChunkSender sender;
    private TcpChunkReceiver receiver;

    /** Takes each chunk into the slot that it names, and notes what has come. */
    private final class Taken implements Arrivals {
        private final ConcurrentLinkedQueue<String> order = new ConcurrentLinkedQueue<>();
        private final Map<Integer, byte[]> bytes = new ConcurrentHashMap<>();
        private final List<String> broken = new CopyOnWriteArrayList<>();
        private final AtomicInteger count = new AtomicInteger();
        private volatile CountDownLatch held = new CountDownLatch(0);
        private volatile int bad = -1;

        @Override
        public ByteBuffer comes(ChunkFrame chunk) throws ProtocolException {
            if (chunk.slot() < 0 || chunk.slot() >= CHUNKS) {
                throw new ProtocolException("slot " + chunk.slot() + " is not granted");
            }
            try {
                if (!held.await(10, TimeUnit.SECONDS)) {
                    throw new AssertionError("nobody lets the target go on");
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
        public boolean came(ChunkFrame chunk) {
            int at = targetPool.geometry().offsetInWindow(chunk.offset());
            byte[] got = new byte[chunk.lengthBytes()];
            targetPool.buffer(chunk.slot()).get(at, got);
            bytes.put(chunk.slot(), got);
            order.add(chunk.sourceChunk() + " ");
            return count.getAndIncrement() != bad;
        }

        @Override
        public void broken(String reason) {
            broken.add(reason);
        }

        @Override
        public void pulled(long pullId) {
            throw new AssertionError("nothing is pulled here");
        }

        @Override
        public void pullFailed(long pullId, String reason) {
            throw new AssertionError("nothing is pulled here");
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
    void close() throws IOException {
        taken.held.countDown();
        if (sender != null) {
            sender.close();
        }
        if (receiver != null) {
            receiver.close();
        }
        for (Loopback pair : pairs) {
            pair.close();
        }
    }

    private Loopback pair() throws IOException {
        Loopback pair = Loopback.open();
        pairs.add(pair);
        return pair;
    }

    private void open(int connections) throws IOException {
        List<SocketChannel> near = new ArrayList<>();
        List<SocketChannel> far = new ArrayList<>();
        for (int i = 0; i < connections; i++) {
            Loopback pair = pair();
            near.add(pair.near());
            far.add(pair.far());
        }
        receiver = new TcpChunkReceiver(far, taken);
        send(near);
    }

    private void send(List<SocketChannel> near) {
        sender = new TcpChunkSender(sourcePool, near, failures::add);
        sender.begin(ATTEMPT, chunk -> {
            if (chunk < 0 || chunk >= CHUNKS) {
                throw new ProtocolException("chunk " + chunk + " is not on its way");
            }
            released[chunk].release();
        });
    }

    private static byte[] part(BufferPool pool, int chunk, int offset, int length) {
        byte[] bytes = new byte[length];
        pool.buffer(chunk).clear().get(offset, bytes);
        return bytes;
    }

    private void awaitRelease(int chunk) throws InterruptedException {
        assertTrue(released[chunk].tryAcquire(10, TimeUnit.SECONDS), "chunk " + chunk + " does not come back");
    }

    @Test
    void shouldBringEveryByteToItsPlaceAndEveryChunkBackOnceWhateverItsLength() throws Exception {
        open(CONNECTIONS);
        ExecutorService writers = Executors.newFixedThreadPool(CHUNKS);
        List<Future<Void>> ends = new ArrayList<>();
        for (int writer = 0; writer < CHUNKS; writer++) {
            int own = writer;
            ends.add(writers.submit(() -> {
                Random random = new Random(own);
                for (long window = 0; window < 200; window++) {
                    int at = random.nextInt(CHUNK_BYTES);
                    int length = 1 + random.nextInt(CHUNK_BYTES - at);
                    byte[] expected = part(sourcePool, own, at, length);
                    sender.send(own, at, length, own + 1, window * CHUNK_BYTES + at, own, 0, window % 2 == 0);
                    awaitRelease(own);
                    assertArrayEquals(expected, taken.bytes.get(own));
                }
                return null;
            }));
        }
        for (Future<Void> end : ends) {
            end.get(60, TimeUnit.SECONDS);
        }
        writers.shutdown();
        assertEquals(CHUNKS * 200, taken.count.get());
        assertEquals(CHUNKS * 200, sender.work());
        for (Semaphore left : released) {
            assertEquals(0, left.availablePermits(), "a chunk came back twice");
        }
        assertEquals(List.of(), failures);
        assertEquals(List.of(), taken.broken);
    }

    @Test
    void shouldNotHoldUpAWriterAndKeepTheOrderOfAConnectionWhenTheTargetTakesNothing() throws Exception {
        Loopback pair = pair();
        pair.near().setOption(StandardSocketOptions.SO_SNDBUF, LITTLE_BYTES);
        pair.far().setOption(StandardSocketOptions.SO_RCVBUF, LITTLE_BYTES);
        taken.held = new CountDownLatch(1);
        receiver = new TcpChunkReceiver(List.of(pair.far()), taken);
        send(List.of(pair.near()));
        for (int chunk = 0; chunk < CHUNKS; chunk++) {
            // A writer that waited for the target would wait for good.
            sender.send(chunk, 0, CHUNK_BYTES, 1, (chunk % 2) * (long) CHUNK_BYTES, chunk, 0, false);
        }
        assertEquals(0, taken.count.get());
        taken.held.countDown();
        StringBuilder expected = new StringBuilder();
        for (int chunk = 0; chunk < CHUNKS; chunk++) {
            awaitRelease(chunk);
            assertArrayEquals(part(sourcePool, chunk, 0, CHUNK_BYTES), taken.bytes.get(chunk));
            expected.append(chunk).append(' ');
        }
        assertEquals(expected.toString(), String.join("", taken.order));
    }

    /** Other writers get a chunk as soon as it has come back, while the one before may still be about to return. */
    @ParameterizedTest
    @ValueSource(ints = {1, CONNECTIONS})
    void shouldSendEachChunkOnceAndWholeWhenAnotherWriterGetsItAtOnce(int connections) throws Exception {
        BlockingQueue<Integer> free = new LinkedBlockingQueue<>(List.of(0, 1));
        List<SocketChannel> near = new ArrayList<>();
        List<SocketChannel> far = new ArrayList<>();
        for (int i = 0; i < connections; i++) {
            Loopback pair = pair();
            near.add(pair.near());
            far.add(pair.far());
        }
        receiver = new TcpChunkReceiver(far, taken);
        sender = new TcpChunkSender(sourcePool, near, failures::add);
        sender.begin(ATTEMPT, free::add);
        ExecutorService writers = Executors.newFixedThreadPool(4);
        List<Future<Void>> ends = new ArrayList<>();
        for (int writer = 0; writer < 4; writer++) {
            ends.add(writers.submit(() -> {
                for (int round = 0; round < 5_000; round++) {
                    Integer chunk = free.poll(10, TimeUnit.SECONDS);
                    assertNotNull(chunk, "no chunk comes back");
                    sender.send(chunk, round % 7, 1 + round % 300, 1, (long) round * CHUNK_BYTES, chunk, 0, true);
                }
                return null;
            }));
        }
        for (Future<Void> end : ends) {
            end.get(60, TimeUnit.SECONDS);
        }
        writers.shutdown();
        Loopback.until("all have come back", () -> free.size() == 2);
        assertEquals(20_000, taken.count.get());
        assertEquals(List.of(), failures);
        assertEquals(List.of(), taken.broken);
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 1, 20, 47, 48, 49, 1000, 1047})
    void shouldSayAtTheTargetThatAConnectionIsCutInTheMiddleOfAChunk(int sentBytes) throws Exception {
        Loopback pair = pair();
        receiver = new TcpChunkReceiver(List.of(pair.far()), taken);
        pair.near().write(frames(1000, 0).limit(sentBytes));
        pair.near().close();
        if (sentBytes == 0) {
            // Between two chunks it is no failure: the session ends so, too.
            receiver.close();
            assertEquals(List.of(), taken.broken);
            return;
        }
        Loopback.until("the target says so", () -> taken.broken.size() == 1);
        assertTrue(
                taken.broken.get(0).contains("data connection to the source failed: java.io.EOFException"),
                taken.broken.get(0));
        assertEquals(0, taken.count.get());
    }

    /** A chunk as a source would send it. */
    private static ByteBuffer frames(int lengthBytes, long order) {
        ByteBuffer bytes = ByteBuffer.allocateDirect(ChunkFrame.LENGTH_BYTES + lengthBytes);
        UnsafeBuffer view = new UnsafeBuffer(bytes);
        ChunkFrame.encode(view, 0, ATTEMPT, 1, 0, lengthBytes, 0, 2, 3, 0);
        ChunkFrame.number(view, 0, order);
        return bytes;
    }

    @ParameterizedTest
    @CsvSource({
        "order, chunk 1 where 0 was due",
        "version, speaks version 9",
        "type, frame RELEASE of 48 bytes where a chunk was due",
        "length, frame CHUNK of 64 bytes where a chunk was due",
        "slot, slot 16 is not granted",
    })
    void shouldRefuseByNameAndReadNoFurtherWhenTheSourceBreaksTheProtocol(String what, String said) throws Exception {
        Loopback pair = pair();
        receiver = new TcpChunkReceiver(List.of(pair.far()), taken);
        ByteBuffer bytes = frames(100, what.equals("order") ? 1 : 0);
        UnsafeBuffer view = new UnsafeBuffer(bytes);
        switch (what) {
            case "version" -> view.putByte(4, (byte) 9);
            case "type" -> view.putByte(5, (byte) FrameType.RELEASE.code());
            case "length" -> view.putInt(0, 64);
            case "slot" -> ChunkFrame.encode(view, 0, ATTEMPT, 1, 0, 100, 0, 2, CHUNKS, 0);
            default -> assertEquals("order", what);
        }
        pair.near().write(bytes);
        pair.near().write(frames(100, 0));
        Loopback.until("the target says so", () -> taken.broken.size() == 1);
        assertTrue(taken.broken.get(0).contains(said), taken.broken.get(0));
        assertEquals(0, taken.count.get());
    }

    /** Each byte is sent when the one before has been taken: no time between two is as long as a release may wait. */
    @Test
    void shouldReleaseAChunkInTimeWhenTheNextOneComesByteByByte() throws Exception {
        Loopback pair = pair();
        receiver = new TcpChunkReceiver(List.of(pair.far()), taken, TimeUnit.MILLISECONDS.toNanos(500));
        pair.near().write(frames(100, 0));
        int length = 4_000;
        ByteBuffer next = frames(length, 1);
        for (int i = ChunkFrame.LENGTH_BYTES; i < next.capacity(); i++) {
            next.put(i, (byte) 7);
        }
        pair.near().write(next.limit(ChunkFrame.LENGTH_BYTES + 101));
        pair.near().configureBlocking(false);
        ByteBuffer release = ByteBuffer.allocateDirect(ReleaseFrame.LENGTH_BYTES);
        int sent = 101;
        while (pair.near().read(release) == 0) {
            int last = sent - 1;
            Loopback.until(
                    "byte " + last + " is taken", () -> targetPool.buffer(3).get(last) == 7);
            assertTrue(sent < length, "the release waits for the next chunk's end");
            pair.near().write(next.limit(ChunkFrame.LENGTH_BYTES + ++sent));
        }
        assertEquals(FrameType.RELEASE, Frame.requireValid(new UnsafeBuffer(release), 0));
    }

    @Test
    void shouldReleaseNothingAndTakeNothingMoreAfterAChunkThatIsNotRight() throws Exception {
        open(1);
        taken.bad = 2;
        for (int chunk = 0; chunk < 5; chunk++) {
            sender.send(chunk, 0, 100, 1, (long) chunk * CHUNK_BYTES, chunk, 0, false);
        }
        awaitRelease(0);
        awaitRelease(1);
        Loopback.until("the third chunk has come", () -> taken.count.get() == 3);
        assertFalse(released[2].tryAcquire(100, TimeUnit.MILLISECONDS));
        assertEquals(3, taken.count.get());
        // The session says why; the connection is there until it has.
        assertEquals(List.of(), failures);
    }

    @Test
    void shouldTellOnceAndRefuseWhatIsSentWhenTheTargetCloses() throws Exception {
        open(1);
        receiver.close();
        Loopback.until("the source says so", () -> failures.size() == 1);
        assertTrue(failures.get(0).contains("data connection to the target failed"), failures.get(0));
        IOException refused = assertThrows(IOException.class, () -> sender.send(0, 0, 100, 1, 0, 0, 0, false));
        assertTrue(refused.getMessage().contains("data connection to the target failed"), refused.getMessage());
        sender.close();
        sender.close();
        assertEquals(1, failures.size());
    }

    @Test
    void shouldTellNothingWhenItIsClosedItself() throws Exception {
        open(CONNECTIONS);
        sender.close();
        receiver.close();
        receiver.close();
        IOException refused = assertThrows(IOException.class, () -> sender.send(0, 0, 100, 1, 0, 0, 0, false));
        assertEquals("the transport was closed", refused.getMessage());
        assertEquals(List.of(), failures);
        assertEquals(List.of(), taken.broken);
    }

    @ParameterizedTest
    @CsvSource({
        "16, 5, 32, 'chunk 16, which was not sent here'",
        "-1, 5, 32, 'chunk -1, which was not sent here'",
        "0, 5, 32, 'chunk 0, which was not sent here'",
        "0, 4, 32, frame RELEASE of attempt 4 where a release of attempt 5 was due",
        "0, 5, 40, frame RELEASE of attempt 5 where a release of attempt 5 was due",
    })
    void shouldRefuseByNameAtTheSourceWhatIsNoRelease(int chunk, int attempt, int length, String said)
            throws Exception {
        Loopback pair = pair();
        send(List.of(pair.near()));
        ByteBuffer bytes = ByteBuffer.allocateDirect(ReleaseFrame.LENGTH_BYTES);
        UnsafeBuffer view = new UnsafeBuffer(bytes);
        ReleaseFrame.encode(view, 0, attempt, 1, 0, chunk);
        Frame.writeHeader(view, 0, FrameType.RELEASE, length, attempt, 1);
        pair.far().write(bytes);
        Loopback.until("the source says so", () -> failures.size() == 1);
        assertTrue(failures.get(0).contains(said), failures.get(0));
    }

    /** Its chunk would be filled with bytes that are not for this target, and they be sent to it. */
    @Test
    void shouldRefuseByNameTheReleaseOfAChunkThatIsNotSentWholeOrTwice() throws Exception {
        Loopback pair = pair();
        pair.near().setOption(StandardSocketOptions.SO_SNDBUF, LITTLE_BYTES);
        pair.far().setOption(StandardSocketOptions.SO_RCVBUF, LITTLE_BYTES);
        send(List.of(pair.near()));
        for (int chunk = 0; chunk < CHUNKS; chunk++) {
            sender.send(chunk, 0, CHUNK_BYTES, 1, (long) chunk * CHUNK_BYTES, chunk, 0, false);
        }
        ByteBuffer bytes = ByteBuffer.allocateDirect(ReleaseFrame.LENGTH_BYTES);
        ReleaseFrame.encode(new UnsafeBuffer(bytes), 0, ATTEMPT, 1, 0, CHUNKS - 1);
        pair.far().write(bytes);
        Loopback.until("the source says so", () -> failures.size() == 1);
        assertTrue(failures.get(0).contains("chunk 15, which was not sent here"), failures.get(0));
        assertEquals(0, released[CHUNKS - 1].availablePermits());

        sender.close();
        Loopback other = pair();
        send(List.of(other.near()));
        sender.send(0, 0, 100, 1, 0, 0, 0, false);
        ReleaseFrame.encode(new UnsafeBuffer(bytes.clear()), 0, ATTEMPT, 1, 0, 0);
        other.far().write(bytes);
        awaitRelease(0);
        other.far().write(bytes.flip());
        Loopback.until("the source says so", () -> failures.size() == 2);
        assertTrue(failures.get(1).contains("chunk 0, which was not sent here"), failures.get(1));
    }

    @Test
    void shouldTakeReleasesThatComeInParts() throws Exception {
        Loopback pair = pair();
        send(List.of(pair.near()));
        for (int chunk = 0; chunk < CHUNKS; chunk++) {
            sender.send(chunk, 0, 100, 1, (long) chunk * CHUNK_BYTES, chunk, 0, false);
        }
        ByteBuffer bytes = ByteBuffer.allocateDirect(ReleaseFrame.LENGTH_BYTES * CHUNKS);
        UnsafeBuffer view = new UnsafeBuffer(bytes);
        for (int chunk = 0; chunk < CHUNKS; chunk++) {
            ReleaseFrame.encode(view, chunk * ReleaseFrame.LENGTH_BYTES, ATTEMPT, 1, 0, chunk);
        }
        Random random = new Random(1);
        while (bytes.position() < bytes.capacity()) {
            bytes.limit(Math.min(bytes.capacity(), bytes.position() + 1 + random.nextInt(50)));
            pair.far().write(bytes);
        }
        for (int chunk = 0; chunk < CHUNKS; chunk++) {
            awaitRelease(chunk);
        }
        assertEquals(List.of(), failures);
    }
}
