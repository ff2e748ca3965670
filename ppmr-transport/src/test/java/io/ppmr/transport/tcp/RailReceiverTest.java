package io.ppmr.transport.tcp;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.protocol.data.ChunkFrame;
import io.ppmr.protocol.data.DataMessage.Attached;
import io.ppmr.protocol.data.DataMessage.EndRail;
import io.ppmr.protocol.data.DataMessage.Offer;
import io.ppmr.protocol.data.DataMessage.OfferedRail;
import io.ppmr.protocol.data.DataMessage.RailEnded;
import io.ppmr.protocol.data.DataMessage.Writable;
import io.ppmr.protocol.data.Frame;
import io.ppmr.protocol.data.FrameType;
import io.ppmr.protocol.data.ProtocolException;
import io.ppmr.protocol.data.ProtocolVersion;
import io.ppmr.protocol.data.RdmaMode;
import io.ppmr.protocol.data.ValueFrame;
import io.ppmr.transport.Arrivals;
import io.ppmr.transport.ChunkReceiver;
import io.ppmr.transport.ControlLink;
import io.ppmr.transport.MemoryProof;
import io.ppmr.transport.SourcePath;
import io.ppmr.transport.TargetPath;
import io.ppmr.transport.Transport;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import java.util.stream.IntStream;
import org.agrona.concurrent.UnsafeBuffer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Tests how a target accepts and ends the connections of rails, for correct and incorrect peers. */
@Timeout(value = 60, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class RailReceiverTest {
    private static final int ATTEMPT = 4;
    private static final int CHUNK_BYTES = 16 << 10;
    private static final int CHUNKS = 4;
    private static final Writable WRITABLE = new Writable(1, 2, 3, 4, 5);
    private static final int PORT = 4711;
    private static final int RAILS = 3;
    /** The rail over RDMA. */
    private static final int DIRECT = 2;

    private static final Duration LONG = Duration.ofSeconds(60L * Integer.getInteger("ppmr.patience", 1));
    private static final long LONG_NS = LONG.toNanos();

    private final BufferPool pool = new BufferPool(new PoolGeometry(CHUNK_BYTES, CHUNKS));
    private final List<SocketChannel> open = new ArrayList<>();
    private final Taken taken = new Taken();
    private final Written written = new Written();
    private ControlLink link;
    private ControlLink far;
    private RailReceiver receiver;

    /** Accepts each chunk into its slot. */
    private final class Taken implements Arrivals {
        private final List<Integer> came = new CopyOnWriteArrayList<>();
        private final List<Integer> lost = new CopyOnWriteArrayList<>();
        private final List<String> broken = new CopyOnWriteArrayList<>();
        private final CountDownLatch inside = new CountDownLatch(1);
        private volatile CountDownLatch held = new CountDownLatch(0);

        @Override
        public ByteBuffer onChunkStart(ChunkFrame chunk) {
            return pool.buffer(chunk.slot()).limit(chunk.lengthBytes()).position(0);
        }

        @Override
        public boolean onChunkEnd(ChunkFrame chunk) {
            inside.countDown();
            try {
                if (!held.await(LONG_NS, TimeUnit.NANOSECONDS)) {
                    throw new AssertionError("the test does not unblock the chunk");
                }
            } catch (InterruptedException e) {
                throw new AssertionError(e);
            }
            came.add(chunk.slot());
            return true;
        }

        @Override
        public void onChunkAborted(ChunkFrame chunk) {
            lost.add(chunk.slot());
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

    /** Replaces RDMA: the test determines the written chunks. */
    private static final class Written implements Transport {
        private volatile String unusable;
        private volatile Arrivals arrivals;
        private volatile MemoryProof proved;
        private volatile boolean closed;

        @Override
        public String unusable() {
            return unusable;
        }

        @Override
        public SourcePath connect(
                BufferPool pool, InetSocketAddress target, Duration deadline, Consumer<String> onFailure) {
            throw new AssertionError("the test is the source");
        }

        @Override
        public TransportListener listen(BufferPool pool, InetAddress address) {
            return new TransportListener() {
                @Override
                public int port() {
                    return PORT;
                }

                @Override
                public TransportPeer accept(InetAddress from, Duration deadline, BooleanSupplier spoken) {
                    while (!spoken.getAsBoolean()) {
                        LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(1));
                    }
                    return new WrittenPeer();
                }

                @Override
                public void close() {
                    // There is nothing to close.
                }
            };
        }

        private final class WrittenPeer implements TransportPeer {
            @Override
            public void require(MemoryProof proof, Duration deadline) {
                proved = proof;
            }

            @Override
            public Optional<Writable> writable() {
                return Optional.of(WRITABLE);
            }

            @Override
            public TargetPath open(Arrivals hears) {
                arrivals = hears;
                return (ChunkReceiver) () -> closed = true;
            }

            @Override
            public String path() {
                return "the test's";
            }

            @Override
            public void close() {
                closed = true;
            }
        }
    }

    @BeforeEach
    void setUp() throws IOException {
        LoopbackPair control = LoopbackPair.open();
        link = new ControlLink(control.near(), ProtocolVersion.NEWEST, ATTEMPT, LONG_NS);
        far = new ControlLink(control.far(), ProtocolVersion.NEWEST, ATTEMPT, LONG_NS);
        List<OfferedRail> rails = IntStream.range(0, RAILS)
                .mapToObj(rail -> new OfferedRail("r" + rail, "127.0.0.1", 1, rail == DIRECT))
                .toList();
        receiver = new RailReceiver(rails, written, pool, taken, link);
    }

    @AfterEach
    void tearDown() throws IOException {
        taken.held.countDown();
        receiver.close();
        link.close();
        far.close();
        for (SocketChannel channel : open) {
            channel.close();
        }
    }

    /** Connects with this RAIL frame; returns the near end. */
    private SocketChannel connect(int rail, int generation, int number) throws IOException {
        SocketChannel near = connect();
        UnsafeBuffer frame = new UnsafeBuffer(ByteBuffer.allocate(ValueFrame.LENGTH_BYTES));
        ValueFrame.encode(frame, 0, FrameType.RAIL, ATTEMPT, rail, ((long) generation << Integer.SIZE) | number);
        near.write(frame.byteBuffer());
        return near;
    }

    private SocketChannel connect() throws IOException {
        LoopbackPair pair = LoopbackPair.open();
        open.add(pair.near());
        receiver.accept(pair.far());
        return pair.near();
    }

    private static void send(SocketChannel to, long order, int slot, int bytesOfIt) throws IOException {
        UnsafeBuffer frame = new UnsafeBuffer(ByteBuffer.allocate(ChunkFrame.LENGTH_BYTES));
        ChunkFrame.encode(frame, 0, ATTEMPT, 1, 0, CHUNK_BYTES, 0, slot, slot, 0);
        ChunkFrame.number(frame, 0, order);
        // One call, because a connection that is refused for the frame may be closed before a second call.
        to.write(new ByteBuffer[] {frame.byteBuffer(), ByteBuffer.allocate(bytesOfIt)});
    }

    private static void until(String what, Check condition) throws IOException {
        long deadlineNs = System.nanoTime() + LONG_NS;
        while (!condition.holds()) {
            assertTrue(System.nanoTime() - deadlineNs < 0, what);
            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(1));
        }
    }

    private interface Check {
        boolean holds() throws IOException;
    }

    /** Returns the next messages to the source. */
    private RailEnded heard() throws IOException {
        List<RailEnded> said = new ArrayList<>();
        until("the rail is ended", () -> {
            hear(said);
            return !said.isEmpty();
        });
        return said.get(0);
    }

    private void hear(List<RailEnded> said) throws IOException {
        link.doWork((type, buffer, offset, lengthBytes) -> {});
        link.transmit();
        far.doWork((type, buffer, offset, lengthBytes) -> {
            if (type == FrameType.MESSAGE && ControlMessage.read(buffer, offset) instanceof RailEnded word) {
                said.add(word);
            }
        });
    }

    private void isClosed(SocketChannel near) throws IOException {
        until("the connection is closed", () -> {
            ByteBuffer bytes = ByteBuffer.allocate(Frame.MAX_FRAME_BYTES);
            try {
                return near.read(bytes) < 0;
            } catch (IOException e) {
                return true;
            }
        });
    }

    @Test
    void shouldReportTheArrivedChunksOfEachConnectionWhenItEndsARail() throws Exception {
        SocketChannel first = connect(1, 1, 0);
        connect(1, 1, 1);
        SocketChannel third = connect(1, 1, 2);
        send(first, 0, 0, CHUNK_BYTES);
        send(first, 1, 1, CHUNK_BYTES);
        send(third, 0, 2, CHUNK_BYTES);
        until("all chunks arrived", () -> taken.came.size() == 3);
        receiver.endRail(new EndRail(1, 1));
        assertEquals(new RailEnded(1, 1, List.of(2L, 0L, 1L)), heard());
        isClosed(first);
        assertEquals(List.of(), taken.broken);
    }

    @Test
    void shouldReturnTheBufferWhenARailEndsInTheMiddleOfIt() throws Exception {
        SocketChannel near = connect(0, 1, 0);
        send(near, 0, 0, CHUNK_BYTES);
        send(near, 1, 3, CHUNK_BYTES / 2);
        until("the first chunk arrived", () -> taken.came.size() == 1);
        near.close();
        until("the second is given back", () -> taken.lost.equals(List.of(3)));
        receiver.endRail(new EndRail(0, 1));
        assertEquals(new RailEnded(0, 1, List.of(1L)), heard());
        assertEquals(List.of(), taken.broken);
    }

    @Test
    void shouldNotReportTheEndOfARailWhileAChunkIsBeingPublished() throws Exception {
        taken.held = new CountDownLatch(1);
        SocketChannel near = connect(0, 1, 0);
        send(near, 0, 0, CHUNK_BYTES);
        assertTrue(taken.inside.await(LONG_NS, TimeUnit.NANOSECONDS));
        receiver.endRail(new EndRail(0, 1));
        List<RailEnded> said = new ArrayList<>();
        for (int i = 0; i < 20; i++) {
            hear(said);
            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(5));
        }
        assertEquals(List.of(), said);
        taken.held.countDown();
        assertEquals(new RailEnded(0, 1, List.of(1L)), heard());
    }

    @Test
    void shouldCloseALateConnectionOfAnEndedGeneration() throws Exception {
        receiver.endRail(new EndRail(0, 2));
        assertEquals(new RailEnded(0, 2, List.of()), heard());
        for (int generation = 1; generation <= 2; generation++) {
            SocketChannel late = connect(0, generation, 0);
            try {
                send(late, 0, 0, CHUNK_BYTES);
            } catch (IOException closedAlready) {
                assertEquals("Broken pipe", closedAlready.getMessage());
            }
            isClosed(late);
        }
        SocketChannel next = connect(0, 3, 0);
        send(next, 0, 1, CHUNK_BYTES);
        until("that of the next generation is taken", () -> taken.came.size() == 1);
        assertEquals(List.of(1), taken.came);
        assertEquals(List.of(), taken.broken);
    }

    /** Connects a rail over RDMA as a source does; returns the near end of its TCP connection. */
    private SocketChannel joinDirect() throws IOException {
        SocketChannel near = connect(DIRECT, 1, 0);
        near.configureBlocking(false);
        RailMessages words = new RailMessages(near, ATTEMPT);
        assertEquals(new Offer(Optional.of(RdmaMode.WRITE), PORT, ""), words.await(Offer.class, LONG, () -> false));
        words.send(new Attached(true, 7, 8, "digest", "the test's"));
        assertEquals(WRITABLE, words.await(Writable.class, LONG, () -> false));
        assertEquals(new MemoryProof(7, 8, "digest"), written.proved);
        return near;
    }

    private static ChunkFrame chunk(int slot) {
        UnsafeBuffer frame = new UnsafeBuffer(ByteBuffer.allocate(ChunkFrame.LENGTH_BYTES));
        ChunkFrame.encode(frame, 0, ATTEMPT, 1, 0, CHUNK_BYTES, 0, slot, slot, 0);
        return new ChunkFrame().wrap(frame, 0);
    }

    @Test
    void shouldCountPublishedChunksAndPublishNoMoreWhenItEndsARailOverRdma() throws Exception {
        SocketChannel near = joinDirect();
        for (int slot = 0; slot < 2; slot++) {
            written.arrivals.onChunkStart(chunk(slot));
            assertTrue(written.arrivals.onChunkEnd(chunk(slot)));
        }
        receiver.endRail(new EndRail(DIRECT, 1));
        assertEquals(new RailEnded(DIRECT, 1, List.of(2L)), heard());
        assertTrue(written.closed);
        assertThrows(ProtocolException.class, () -> written.arrivals.onChunkStart(chunk(2)));
        isClosed(near);
        assertEquals(List.of(0, 1), taken.came);
        assertEquals(List.of(), taken.broken);
    }

    @Test
    void shouldNeverReportTheEndOfARailOverRdmaWhenAPublishingThreadHangs() throws Exception {
        SocketChannel near = joinDirect();
        written.arrivals.onChunkStart(chunk(0));
        receiver.endRail(new EndRail(DIRECT, 1));
        isClosed(near);
        List<RailEnded> said = new ArrayList<>();
        for (int i = 0; i < 20; i++) {
            hear(said);
            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(5));
        }
        assertEquals(List.of(), said);
        assertTrue(written.closed);
    }

    @Test
    void shouldLoseARailOverRdmaButNotTheSessionWhenItsConnectionFails() throws Exception {
        SocketChannel near = joinDirect();
        written.arrivals.onChunkStart(chunk(3));
        assertTrue(written.arrivals.onChunkEnd(chunk(3)));
        written.arrivals.onConnectionLost("the device has failed");
        isClosed(near);
        receiver.endRail(new EndRail(DIRECT, 1));
        assertEquals(new RailEnded(DIRECT, 1, List.of(1L)), heard());
        assertTrue(written.closed);
        assertEquals(List.of(), taken.broken);
    }

    @Test
    void shouldEndRdmaWritesWhenTheSourceClosesTheConnectionOfTheRail() throws Exception {
        SocketChannel near = joinDirect();
        near.close();
        until("the source can write nothing more", () -> written.closed);
        assertEquals(List.of(), taken.broken);
    }

    @Test
    void shouldReportToTheSourceWhenARailOverRdmaCannotBeConnected() throws Exception {
        written.unusable = "this node has no RDMA device";
        SocketChannel near = connect(DIRECT, 1, 0);
        near.configureBlocking(false);
        RailMessages words = new RailMessages(near, ATTEMPT);
        IOException said = assertThrows(IOException.class, () -> words.await(Offer.class, LONG, () -> false));
        assertTrue(said.getMessage().contains("this node has no RDMA device"), said.getMessage());
        assertEquals(List.of(), taken.broken);
    }

    @Test
    void shouldFailTheSessionWhenTheSourceSendsMoreThanTheNegotiationOfARailOverRdma() throws Exception {
        SocketChannel near = joinDirect();
        near.write(ByteBuffer.allocate(1));
        until("the session is notified", () -> taken.broken.size() == 1);
        assertTrue(written.closed);
    }

    @Test
    void shouldRefuseAConnectionWhenItsFirstFrameIsWrong() throws Exception {
        connect(0, 1, 0);
        List<SocketChannel> wrong = new ArrayList<>();
        SocketChannel first = connect(0, 2, 0);
        wrong.add(connect(-1, 1, 0));
        wrong.add(connect(RAILS, 1, 0));
        wrong.add(connect(1, 0, 0));
        wrong.add(connect(1, 1, -1));
        wrong.add(connect(1, 1, 64));
        SocketChannel chunkFirst = connect();
        send(chunkFirst, 0, 0, CHUNK_BYTES);
        wrong.add(chunkFirst);
        SocketChannel otherAttempt = connect();
        UnsafeBuffer frame = new UnsafeBuffer(ByteBuffer.allocate(ValueFrame.LENGTH_BYTES));
        ValueFrame.encode(frame, 0, FrameType.RAIL, ATTEMPT + 1, 1, 1L << Integer.SIZE);
        otherAttempt.write(frame.byteBuffer());
        wrong.add(otherAttempt);
        for (SocketChannel near : wrong) {
            isClosed(near);
        }
        send(first, 0, 2, CHUNK_BYTES);
        until("the good one is taken", () -> taken.came.equals(List.of(2)));
        assertEquals(List.of(), taken.broken);
    }

    @Test
    void shouldFailTheSessionWhenAConnectionBreaksTheProtocol() throws Exception {
        SocketChannel near = connect(0, 1, 0);
        send(near, 7, 0, CHUNK_BYTES);
        until("it is broken", () -> !taken.broken.isEmpty());
        assertTrue(taken.broken.get(0).contains("chunk 7 instead of 0"), taken.broken.get(0));
    }

    @Test
    void shouldEndTheSessionWhenARailIsEndedTwiceOrIsNone() throws Exception {
        receiver.endRail(new EndRail(0, 1));
        for (EndRail wrong : List.of(new EndRail(0, 1), new EndRail(1, 0), new EndRail(-1, 1), new EndRail(RAILS, 1))) {
            assertThrows(ProtocolException.class, () -> receiver.endRail(wrong));
        }
        receiver.endRail(new EndRail(0, 2));
    }

    @Test
    void shouldCloseNewConnectionsWhenItIsClosedOrHasTheMaximum() throws Exception {
        SocketChannel last = null;
        for (int i = 0; i <= RailReceiver.MAX_CONNECTIONS; i++) {
            last = connect();
        }
        isClosed(last);
        receiver.close();
        isClosed(connect(0, 1, 0));
    }
}
