package io.ppmr.target.session;

import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import io.ppmr.bufferpool.BufferPool;
import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.fuse.NodeTree;
import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.protocol.data.AdvertiseFrame;
import io.ppmr.protocol.data.ChunkFrame;
import io.ppmr.protocol.data.CreditFrame;
import io.ppmr.protocol.data.CreditRequestFrame;
import io.ppmr.protocol.data.DataMessage;
import io.ppmr.protocol.data.FrameType;
import io.ppmr.protocol.data.ImageTraits;
import io.ppmr.protocol.data.Message;
import io.ppmr.protocol.data.NodeKind;
import io.ppmr.protocol.data.ProtocolVersion;
import io.ppmr.protocol.data.ReadingMode;
import io.ppmr.protocol.data.ReleaseFrame;
import io.ppmr.protocol.data.ValueFrame;
import io.ppmr.target.image.ArrivingFile;
import io.ppmr.target.image.ArrivingImages;
import io.ppmr.target.image.FilePrefixStore;
import io.ppmr.target.metrics.TargetHops;
import io.ppmr.transport.Arrivals;
import io.ppmr.transport.ChunkPuller;
import io.ppmr.transport.ChunkReceiver;
import io.ppmr.transport.ControlLink;
import io.ppmr.transport.PullListener;
import io.ppmr.transport.RemoteBlock;
import io.ppmr.transport.SessionAgent;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import java.util.zip.CRC32C;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;

/** A transfer whose agent is the test's thread, and whose puller the test controls; the test is the source. */
final class TransferFixture {
    static final int CHUNK_BYTES = 16 * 1024;
    static final int POOL_CHUNKS = 4;
    static final long STAGING_BYTES = 64L * CHUNK_BYTES;
    static final int STALL_S = 4;
    private static final int BOUNCE_BUFFERS = 1;
    private static final int ATTEMPT = 3;
    private static final String DIRECTORY = "m." + ATTEMPT;
    private static final long REAL_TIME = Long.MIN_VALUE;
    static final long DEADLINE_NS = TimeUnit.SECONDS.toNanos(60L * Integer.getInteger("ppmr.patience", 1));

    /** An answer to the source; {@code value} is the slot, the source's chunk, or the number. */
    record Answer(FrameType type, int file, long value) {}

    private record Habits(ReadingMode readingMode) implements ImageTraits {
        @Override
        public List<String> expectedNames(int rank) {
            return List.of();
        }

        @Override
        public List<String> completionNames(int rank) {
            return List.of();
        }

        @Override
        public Optional<String> finalNameOf(String temporaryName) {
            return Optional.empty();
        }
    }

    /** Holds each pull until the test ends it. */
    final class HeldPuller implements ChunkPuller {
        private record Pull(long pullId, int chunk, int offset) {}

        private final PullListener listener;
        private final ArrayDeque<Pull> pulls = new ArrayDeque<>();
        private final ArrayDeque<byte[]> blocks = new ArrayDeque<>();

        private HeldPuller(PullListener listener) {
            this.listener = listener;
        }

        int underWay() {
            return pulls.size();
        }

        void bring() {
            Pull pull = pulls.remove();
            pool.buffer(pull.chunk).clear().put(pull.offset, blocks.remove());
            listener.onPullCompleted(pull.pullId);
        }

        void corrupt() {
            blocks.element()[0] ^= 1;
            bring();
        }

        void fail(String reason) {
            blocks.remove();
            listener.onPullFailed(pulls.remove().pullId, reason);
        }

        @Override
        public int depth() {
            return 8;
        }

        @Override
        public void pull(long pullId, RemoteBlock from, int localChunk, int localOffset, boolean more) {
            pulls.add(new Pull(pullId, localChunk, localOffset));
        }

        @Override
        public void close() {
            while (!pulls.isEmpty()) {
                fail("closed");
            }
        }
    }

    /** Keeps the arrivals of the transport, for the test to call them. */
    private static final class NoPath implements ChunkReceiver {
        @Override
        public void close() {
            // There is nothing to close.
        }
    }

    final BufferPool pool = new BufferPool(new PoolGeometry(CHUNK_BYTES, POOL_CHUNKS + BOUNCE_BUFFERS));
    final Transfer transfer;
    HeldPuller puller;
    Arrivals arrivals;
    private final NodeTree<ArrivingFile> tree = new NodeTree<>(0, 0);
    private final AtomicReference<String> failure = new AtomicReference<>();
    private final ControlLink targetLink;
    private final ControlLink sourceLink;
    private final ArrayDeque<Answer> answers = new ArrayDeque<>();
    private SessionAgent agent;
    private final ArrayDeque<Message> messages = new ArrayDeque<>();
    private long clockNs = REAL_TIME;
    private final UnsafeBuffer frame = new UnsafeBuffer(new byte[256]);

    TransferFixture() throws Exception {
        this(ReadingMode.STREAMED);
    }

    TransferFixture(ReadingMode mode) throws Exception {
        this(mode, false);
    }

    /** @param sends whether the source sends the chunks */
    TransferFixture(ReadingMode mode, boolean sends) throws Exception {
        SocketChannel near;
        SocketChannel far;
        try (ServerSocketChannel server = ServerSocketChannel.open()) {
            server.bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0));
            near = SocketChannel.open(server.getLocalAddress());
            far = server.accept();
        }
        targetLink = new ControlLink(far, ProtocolVersion.NEWEST, ATTEMPT, TimeUnit.MINUTES.toNanos(1));
        sourceLink = new ControlLink(near, ProtocolVersion.NEWEST, ATTEMPT, TimeUnit.MINUTES.toNanos(1));
        transfer = new Transfer(
                new TransferSettings(
                        Path.of("/dev/shm"),
                        mode == ReadingMode.RETAINED ? STAGING_BYTES : 0,
                        1 << 20,
                        Duration.ofSeconds(STALL_S)),
                pool,
                BOUNCE_BUFFERS,
                targetLink,
                new ArrivingImages.ImagesContext(
                        DIRECTORY,
                        new Habits(mode),
                        tree,
                        new PoolGeometry(CHUNK_BYTES, POOL_CHUNKS),
                        new FilePrefixStore(1 << 20),
                        0,
                        0,
                        List.of(0)),
                hears -> {
                    arrivals = hears;
                    puller = sends ? null : new HeldPuller(hears);
                    return sends ? new NoPath() : puller;
                },
                reason -> failure.compareAndSet(null, reason),
                new TargetHops(new SimpleMeterRegistry()));
    }

    String failure() {
        return failure.get();
    }

    List<String> shownNames() throws Exception {
        return tree.list("/").stream().filter(name -> !name.equals("..")).toList();
    }

    /** The target's end of the session, with an agent that ends, since its connection is lost when this returns. */
    TargetEnd endWhoseSourceIsLost() throws Exception {
        CountDownLatch lost = new CountDownLatch(1);
        TargetEnd end = new TargetEnd(targetLink, event -> lost.countDown());
        agent = new SessionAgent("target", targetLink, ControlMessage::read, end);
        agent.start();
        sourceLink.close();
        if (!lost.await(DEADLINE_NS, TimeUnit.NANOSECONDS)) {
            throw new AssertionError("the agent does not notice that its connection is closed");
        }
        return end;
    }

    void close() {
        if (agent != null) {
            agent.stop();
        }
        transfer.close();
        targetLink.close();
        sourceLink.close();
    }

    // ---- messages of the source --------------------------------------------------------------------------------

    void create(int file, String path) throws IOException {
        transfer.onNameChange(new DataMessage.Created(file, NodeKind.FILE, path, 0600, 0, 0, ""));
    }

    void want(int file, long window, int count, int flags) throws IOException {
        CreditRequestFrame.encode(frame, 0, ATTEMPT, file, window, count, flags);
        transfer.onFrame(FrameType.CREDIT_REQUEST, frame, 0);
        work();
    }

    void giveBack(int file, long window, int slot) throws IOException {
        CreditFrame.encode(frame, 0, FrameType.CREDIT_RETURN, ATTEMPT, file, window, slot);
        transfer.onFrame(FrameType.CREDIT_RETURN, frame, 0);
        work();
    }

    void advertise(int file, int slot, long offset, byte[] bytes, long order, int sourceChunk) throws IOException {
        CRC32C crc = new CRC32C();
        crc.update(bytes);
        AdvertiseFrame.encode(
                frame, 0, ATTEMPT, file, offset, order, 0, 0, bytes.length, (int) crc.getValue(), sourceChunk, slot);
        transfer.onFrame(FrameType.ADVERTISE, frame, 0);
        puller.blocks.add(bytes.clone());
        work();
    }

    /** A chunk arrives without a pull, on the test's thread, which returns whether it was correct. */
    boolean send(int file, int slot, long offset, byte[] bytes, boolean changed) throws IOException {
        CRC32C crc = new CRC32C();
        crc.update(bytes);
        UnsafeBuffer header = new UnsafeBuffer(new byte[ChunkFrame.LENGTH_BYTES]);
        ChunkFrame.encode(header, 0, ATTEMPT, file, offset, bytes.length, (int) crc.getValue(), 0, slot, 0);
        ChunkFrame chunk = new ChunkFrame().wrap(header, 0);
        ByteBuffer into = arrivals.onChunkStart(chunk);
        into.put(bytes);
        if (changed) {
            into.put(into.position() - 1, (byte) (bytes[bytes.length - 1] ^ 1));
        }
        return arrivals.onChunkEnd(chunk);
    }

    void value(FrameType type, int file, long value) throws IOException {
        ValueFrame.encode(frame, 0, type, ATTEMPT, file, value);
        transfer.onFrame(type, frame, 0);
        work();
    }

    // ---- the agent --------------------------------------------------------------------------------------------

    void work() throws IOException {
        round(clockNs == REAL_TIME ? System.nanoTime() : clockNs);
    }

    /** One cycle of the agent at this time, at which the clock then stops. */
    void workAt(long nowNs) throws IOException {
        clockNs = nowNs;
        round(nowNs);
    }

    private void round(long nowNs) throws IOException {
        targetLink.doWork((type, buffer, offset, length) -> {});
        transfer.doWork(nowNs);
        targetLink.transmit();
    }

    // ---- answers of the target ---------------------------------------------------------------------------------

    Answer next() throws IOException {
        Answer answer = within(DEADLINE_NS);
        if (answer == null) {
            throw new AssertionError("the target answers nothing");
        }
        return answer;
    }

    /** Returns the next answer, or null if there is none within a short time. */
    Answer nextOrNull() throws IOException {
        return within(TimeUnit.MILLISECONDS.toNanos(500));
    }

    private Answer within(long limitNs) throws IOException {
        long deadlineNs = System.nanoTime() + limitNs;
        receive();
        while (answers.isEmpty() && System.nanoTime() - deadlineNs < 0) {
            receive();
        }
        return answers.poll();
    }

    <T extends Message> T awaitMessage(Class<T> kind) throws IOException {
        long deadlineNs = System.nanoTime() + DEADLINE_NS;
        while (System.nanoTime() - deadlineNs < 0) {
            work();
            receive();
            for (Message message : messages) {
                if (kind.isInstance(message)) {
                    return kind.cast(message);
                }
            }
        }
        throw new AssertionError("no " + kind.getSimpleName() + " came, but " + messages);
    }

    private void receive() throws IOException {
        if (sourceLink.doWork(this::onAnswer) == 0) {
            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(1));
        }
    }

    private void onAnswer(FrameType type, DirectBuffer buffer, int offset, int lengthBytes) throws IOException {
        switch (type) {
            case CREDIT, CREDIT_DENIAL -> {
                CreditFrame slot = new CreditFrame().wrap(buffer, offset);
                answers.add(new Answer(type, slot.file(), slot.slot()));
            }
            case RELEASE -> {
                ReleaseFrame release = new ReleaseFrame().wrap(buffer, offset);
                answers.add(new Answer(type, release.file(), release.sourceChunk()));
            }
            case MESSAGE -> messages.add(ControlMessage.read(buffer, offset));
            default -> {
                ValueFrame value = new ValueFrame().wrap(buffer, offset);
                answers.add(new Answer(type, value.file(), value.value()));
            }
        }
    }

    static byte[] bytes(int lengthBytes) {
        byte[] bytes = new byte[lengthBytes];
        for (int i = 0; i < lengthBytes; i++) {
            bytes[i] = (byte) (i * 7 + i / 251);
        }
        return bytes;
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
}
