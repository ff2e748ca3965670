package io.ppmr.source.session;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import io.ppmr.bufferpool.BufferPool;
import io.ppmr.bufferpool.ChunkState;
import io.ppmr.bufferpool.FairClaims;
import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.protocol.data.CreditRequestFrame;
import io.ppmr.protocol.data.FrameType;
import io.ppmr.protocol.data.ProtocolException;
import io.ppmr.protocol.data.ProtocolVersion;
import io.ppmr.protocol.data.ValueFrame;
import io.ppmr.source.image.ImageFailure;
import io.ppmr.source.image.ImageTee;
import io.ppmr.source.image.OutgoingFile;
import io.ppmr.source.image.WriterActivity;
import io.ppmr.source.metrics.SourceHops;
import io.ppmr.transport.ChunkSender;
import io.ppmr.transport.ControlLink;
import io.ppmr.transport.MemoryProof;
import io.ppmr.transport.SessionAgent;
import io.ppmr.transport.SessionEvent;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.agrona.DirectBuffer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Tests the permitted releases of a target, and the order of frames and chunks that can overtake each other. */
class LinkOutletTest {
    private static final int CHUNKS = 8;
    private static final int CHUNK_BYTES = 16 * 1024;
    private static final long MOMENT_MS = 200;
    private static final long LONG_S = 60L * Integer.getInteger("ppmr.patience", 1);
    private static final long SILENCE_S = 60;

    private final BufferPool pool = new BufferPool(new PoolGeometry(CHUNK_BYTES, CHUNKS));
    private final FairClaims claims = new FairClaims(pool);
    private final Sender sender = new Sender();
    private final BlockingQueue<String> frames = new LinkedBlockingQueue<>();
    private final BlockingQueue<SessionEvent> events = new LinkedBlockingQueue<>();
    private SocketChannel far;
    private ControlLink farLink;
    private SessionAgent near;
    private SessionAgent target;
    private ControlLink link;
    private SourceEnd end;
    private LinkOutlet outlet;
    private OutgoingFile file;
    private volatile boolean answers = true;

    /** Keeps sent chunks until the test reports their arrival. */
    private static final class Sender implements ChunkSender {
        private final List<Integer> sent = new CopyOnWriteArrayList<>();
        private Releases releases;

        @Override
        public void begin(int attempt, Releases hears) {
            releases = hears;
        }

        @Override
        public void send(
                int chunk,
                int offsetInChunk,
                int lengthBytes,
                int file,
                long offset,
                int slot,
                int crc32c,
                boolean soon) {
            sent.add(chunk);
        }

        @Override
        public long operations() {
            return sent.size();
        }

        @Override
        public MemoryProof proof() {
            return MemoryProof.NONE;
        }

        @Override
        public String path() {
            return "a test";
        }

        @Override
        public void close() {
            // There is nothing to close.
        }
    }

    /** Records received frames, and answers SYNC. */
    private final class Target implements SessionAgent.End {
        @Override
        public void onFrame(FrameType type, DirectBuffer buffer, int offset, int lengthBytes) throws IOException {
            if (type == FrameType.SYNC) {
                long token = new ValueFrame().wrap(buffer, offset).value();
                if (answers) {
                    farLink.sendValue(FrameType.SYNCED, 1, token);
                }
            }
            frames.add(type.name());
        }

        @Override
        public int doWork(long nowNs) {
            return 0;
        }

        @Override
        public boolean hasWork() {
            return false;
        }

        @Override
        public long sleepMs() {
            return 10;
        }

        @Override
        public void onMessage(io.ppmr.protocol.data.Message message, int lengthBytes) {
            frames.add(message.toString());
        }

        @Override
        public void onLost(String reason) {
            frames.add("lost");
        }
    }

    @BeforeEach
    void setUp() throws Exception {
        SocketChannel here;
        try (ServerSocketChannel server = ServerSocketChannel.open()) {
            server.bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0));
            here = SocketChannel.open(server.getLocalAddress());
            far = server.accept();
        }
        link = new ControlLink(here, ProtocolVersion.NEWEST, 1, TimeUnit.SECONDS.toNanos(SILENCE_S));
        farLink = new ControlLink(far, ProtocolVersion.NEWEST, 1, TimeUnit.SECONDS.toNanos(SILENCE_S));
        end = new SourceEnd(claims, events::add);
        near = new SessionAgent("source", link, ControlMessage::read, end);
        target = new SessionAgent("target", farLink, ControlMessage::read, new Target());
        outlet = new LinkOutlet(link, sender, pool, claims, new SourceHops(new SimpleMeterRegistry(), CHUNKS));
        file = newFile(1, outlet);
        end.begin(outlet, null);
        near.start();
        target.start();
    }

    @AfterEach
    void tearDown() {
        near.stop();
        target.stop();
    }

    private OutgoingFile newFile(int id, LinkOutlet sends) {
        return new OutgoingFile(
                id,
                "/m.1/rank-0/f" + id,
                0,
                pool,
                claims,
                sends,
                ImageTee.FileCopy.NONE,
                new ImageFailure(false),
                new WriterActivity());
    }

    /** Sends a chunk of a window, and returns it. */
    private int send(long window) throws Exception {
        return send(outlet, file, window);
    }

    private int send(LinkOutlet sends, OutgoingFile of, long window) throws Exception {
        int chunk = claims.claim(System.nanoTime());
        pool.markReady(chunk);
        sends.sendChunk(of, chunk, 0, window * CHUNK_BYTES, 100, 5, System.nanoTime());
        return chunk;
    }

    private interface Call {
        void make() throws Exception;
    }

    private static CompletableFuture<Void> begin(Call call) {
        return CompletableFuture.runAsync(() -> {
            try {
                call.make();
            } catch (Exception e) {
                throw new CompletionException(e);
            }
        });
    }

    private void nothingComes() throws InterruptedException {
        assertEquals(null, frames.poll(MOMENT_MS, TimeUnit.MILLISECONDS));
    }

    private void comes(FrameType type) throws InterruptedException {
        assertEquals(type.name(), frames.poll(LONG_S, TimeUnit.SECONDS));
    }

    @Test
    void shouldRefuseAReleaseOfAChunkThatIsNotUnderWay() throws Exception {
        int chunk = send(0);
        assertEquals(List.of(chunk), sender.sent);
        sender.releases.released(chunk);
        assertEquals(ChunkState.FREE, pool.state(chunk));
        for (int other : new int[] {chunk, chunk + 1, -1, CHUNKS, Integer.MIN_VALUE, Integer.MAX_VALUE}) {
            String message = assertThrows(ProtocolException.class, () -> sender.releases.released(other))
                    .getMessage();
            assertTrue(message.contains("chunk " + other + ", which is not under way"), message);
        }
    }

    @Test
    void shouldRefuseAReleaseOnTheWrongConnection() throws Exception {
        int chunk = send(0);
        assertThrows(ProtocolException.class, () -> outlet.onRelease(chunk));
        assertEquals(ChunkState.READY, pool.state(chunk));
        sender.releases.released(chunk);
    }

    @ParameterizedTest
    @EnumSource(names = {"END_OF_FILE", "TRUNCATE", "SYNC"})
    void shouldSendAFollowingFrameAfterTheFilesChunksArrived(FrameType type) throws Exception {
        int first = send(0);
        int second = send(1);
        CompletableFuture<Void> said = begin(() -> {
            if (type == FrameType.SYNC) {
                outlet.sync(file);
            } else {
                outlet.sendValue(type, 1, 7);
            }
        });
        nothingComes();
        sender.releases.released(second);
        nothingComes();
        sender.releases.released(first);
        comes(type);
        said.get(LONG_S, TimeUnit.SECONDS);
    }

    @Test
    void shouldReturnFromATruncationAfterTheTargetTruncated() throws Exception {
        answers = false;
        CompletableFuture<Void> cut = begin(() -> outlet.sendValue(FrameType.TRUNCATE, 1, 7));
        comes(FrameType.TRUNCATE);
        comes(FrameType.SYNC);
        assertThrows(java.util.concurrent.TimeoutException.class, () -> cut.get(MOMENT_MS, TimeUnit.MILLISECONDS));
        outlet.synced(1);
        cut.get(LONG_S, TimeUnit.SECONDS);
    }

    @Test
    void shouldNotWaitForChunksOfOtherFilesOrWindows() throws Exception {
        int chunk = send(3);
        outlet.requestCredits(file, 4, 1, CreditRequestFrame.BLOCKED);
        comes(FrameType.CREDIT_REQUEST);
        outlet.requestCredits(file, 3, 1, 0);
        comes(FrameType.CREDIT_REQUEST);
        outlet.sendValue(FrameType.END_OF_FILE, 2, 7);
        comes(FrameType.END_OF_FILE);
        outlet.sendValue(FrameType.END_OF_IMAGE, 0, 0);
        comes(FrameType.END_OF_IMAGE);
        sender.releases.released(chunk);
    }

    @Test
    void shouldRequestAWindowAgainAfterItsChunkArrived() throws Exception {
        int chunk = send(3);
        CompletableFuture<Void> asked = begin(() -> outlet.requestCredits(file, 3, 1, CreditRequestFrame.BLOCKED));
        nothingComes();
        sender.releases.released(chunk);
        comes(FrameType.CREDIT_REQUEST);
        asked.get(LONG_S, TimeUnit.SECONDS);
    }

    @Test
    void shouldEndAnFsyncWhileTheFileIsStillWritten() throws Exception {
        int first = send(0);
        CompletableFuture<Void> said = begin(() -> outlet.sync(file));
        nothingComes();
        int later = send(1);
        sender.releases.released(first);
        comes(FrameType.SYNC);
        said.get(LONG_S, TimeUnit.SECONDS);
        sender.releases.released(later);
    }

    /** In an earlier version, writes of other files prolonged the wait for a chunk on a blocked connection. */
    @Test
    void shouldFailByNameWhenOnlyLaterChunksArrive() throws Exception {
        ControlLink quiet = new ControlLink(far, ProtocolVersion.NEWEST, 1, TimeUnit.SECONDS.toNanos(1));
        LinkOutlet other =
                new LinkOutlet(quiet, sender, pool, claims, new SourceHops(new SimpleMeterRegistry(), CHUNKS));
        OutgoingFile waitedFor = newFile(1, other);
        OutgoingFile written = newFile(2, other);
        send(other, waitedFor, 0);
        int before = send(other, written, 0);
        CompletableFuture<Void> said = begin(() -> other.sendValue(FrameType.END_OF_FILE, 1, 7));
        sender.releases.released(before);
        long deadlineNs = System.nanoTime() + TimeUnit.SECONDS.toNanos(LONG_S);
        for (long window = 1; !said.isDone(); window++) {
            assertTrue(System.nanoTime() - deadlineNs < 0, "others' chunks keep the wait going");
            sender.releases.released(send(other, written, window));
        }
        ExecutionException failed = assertThrows(ExecutionException.class, () -> said.get(LONG_S, TimeUnit.SECONDS));
        assertTrue(
                failed.getMessage().contains("the target accepted no awaited chunk for 1000 ms"), failed.getMessage());
    }

    private List<CompletableFuture<Void>> waits() throws Exception {
        send(3);
        List<CompletableFuture<Void>> waits = List.of(
                begin(() -> outlet.requestCredits(file, 3, 1, CreditRequestFrame.BLOCKED)),
                begin(() -> outlet.sendValue(FrameType.END_OF_FILE, 1, 7)),
                begin(() -> outlet.sync(file)));
        nothingComes();
        return waits;
    }

    private static void endByName(List<CompletableFuture<Void>> waits, String reason) {
        for (CompletableFuture<Void> wait : waits) {
            ExecutionException end = assertThrows(ExecutionException.class, () -> wait.get(LONG_S, TimeUnit.SECONDS));
            assertTrue(end.getMessage().contains(reason), end.getMessage());
        }
    }

    @Test
    void shouldEndEveryWaitByNameWhenTheSessionFails() throws Exception {
        List<CompletableFuture<Void>> waits = waits();
        outlet.fail("the target was lost");
        endByName(waits, "the target was lost");
    }

    /** The silence limit is longer than this test waits. */
    @Test
    void shouldEndEveryWaitByNameWhenTheControlConnectionIsLost() throws Exception {
        List<CompletableFuture<Void>> waits = waits();
        target.stop();
        endByName(waits, "was closed by the peer");
    }

    @Test
    void shouldEndEveryWaitByNameWhenADataConnectionFails() throws Exception {
        List<CompletableFuture<Void>> waits = waits();
        end.onLost("data connection to the target failed: cut");
        endByName(waits, "data connection to the target failed: cut");
        assertEquals(new SessionEvent.LinkLost("data connection to the target failed: cut"), events.poll());
    }

    @Test
    void shouldEndEveryWaitByNameWhenTheSessionWasLostBeforeItsFirstFile() throws Exception {
        SourceEnd lost = new SourceEnd(claims, events::add);
        lost.onLost("cut");
        lost.begin(outlet, null);
        send(3);
        endByName(List.of(begin(() -> outlet.sendValue(FrameType.END_OF_FILE, 1, 7))), "cut");
    }
}
