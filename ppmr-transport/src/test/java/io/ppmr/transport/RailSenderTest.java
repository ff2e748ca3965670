package io.ppmr.transport;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.protocol.data.DataMessage.EndRail;
import io.ppmr.protocol.data.DataMessage.RailEnded;
import io.ppmr.protocol.data.ProtocolException;
import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Tests the selection of the rail for a chunk and the loss of a rail, with connections that the test controls. */
@Timeout(value = 120, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class RailSenderTest {
    private static final int CHUNKS = 8;
    private static final int CHUNK_BYTES = 64 << 10;
    private static final int GATE_BYTES = 32 << 10;
    private static final int ATTEMPT = 3;
    private static final long LONG_S = 60L * Integer.getInteger("ppmr.patience", 1);
    private static final RailSender.RailLimits PATIENT = new RailSender.RailLimits(
            TimeUnit.SECONDS.toNanos(60), TimeUnit.SECONDS.toNanos(60), TimeUnit.SECONDS.toNanos(60));

    private final BufferPool pool = new BufferPool(new PoolGeometry(CHUNK_BYTES, CHUNKS));
    private final BlockingQueue<EndRail> asked = new LinkedBlockingQueue<>();
    private final List<String> failures = new CopyOnWriteArrayList<>();
    private final List<Integer> released = new CopyOnWriteArrayList<>();
    /** The rails that cannot be connected, with the reason. */
    private final Map<Integer, String> refused = new ConcurrentHashMap<>();

    private final Map<Integer, FakeLine> lines = new ConcurrentHashMap<>();
    private final AtomicLong opened = new AtomicLong();
    private RailSender rails;

    /** Keeps sent chunks until the test reports their arrival. */
    private static final class FakeLine implements RailSender.RailConnection {
        private final List<Integer> sent = new CopyOnWriteArrayList<>();
        private final Set<Integer> arrived = ConcurrentHashMap.newKeySet();
        private final AtomicLong moved = new AtomicLong();
        private final Consumer<String> onFailure;
        private volatile Releases releases;
        private volatile boolean closed;
        private volatile boolean lies;

        private FakeLine(Consumer<String> onFailure) {
            this.onFailure = onFailure;
        }

        @Override
        public void begin(int attempt, Releases hears) {
            assertEquals(ATTEMPT, attempt);
            releases = hears;
        }

        @Override
        public void send(int chunk, int at, int lengthBytes, int file, long offset, int slot, int crc32c, boolean soon)
                throws IOException {
            if (closed) {
                throw new IOException("closed");
            }
            sent.add(chunk);
        }

        @Override
        public long movedBytes() {
            return moved.get();
        }

        @Override
        public boolean hasArrived(int chunk, RailEnded word) throws ProtocolException {
            if (lies) {
                throw new ProtocolException("more have arrived than were sent");
            }
            return arrived.contains(chunk);
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
            closed = true;
        }
    }

    @AfterEach
    void close() {
        if (rails != null) {
            rails.close();
        }
    }

    private void open(RailSender.RailLimits limits, RailSettings... settings) throws IOException {
        List<RailSender.Route> ways = new java.util.ArrayList<>();
        for (int rail = 0; rail < settings.length; rail++) {
            ways.add(new RailSender.Route(rail, settings[rail], new RailFigures(settings[rail].name())));
        }
        rails = new RailSender(pool, ATTEMPT, ways, this::connect, asked::add, failures::add, limits);
        rails.open();
        rails.begin(ATTEMPT, released::add);
    }

    private RailSender.RailConnection connect(int rail, int generation, Consumer<String> onFailure) throws IOException {
        opened.incrementAndGet();
        String why = refused.get(rail);
        if (why != null) {
            throw new IOException(why);
        }
        FakeLine line = new FakeLine(onFailure);
        lines.put(rail, line);
        return line;
    }

    private static RailSettings rail(String name, int priority, int minBytes) {
        return new RailSettings(name, Optional.empty(), false, priority, minBytes);
    }

    private void send(int chunk, int lengthBytes) throws IOException {
        rails.send(chunk, 0, lengthBytes, 1, 0, chunk, 0, false);
    }

    private static void until(String what, BooleanSupplier condition) {
        long deadlineNs = System.nanoTime() + TimeUnit.SECONDS.toNanos(LONG_S);
        while (!condition.getAsBoolean()) {
            assertTrue(System.nanoTime() - deadlineNs < 0, what);
            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(1));
        }
    }

    private void untilSent(int rail, int chunk) {
        until(
                "chunk " + chunk + " goes to rail " + rail,
                () -> lines.containsKey(rail) && lines.get(rail).sent.contains(chunk));
    }

    private EndRail asked() throws InterruptedException {
        EndRail word = asked.poll(LONG_S, TimeUnit.SECONDS);
        assertTrue(word != null, "the target receives a request to end the rail");
        return word;
    }

    private void answer(EndRail word) throws IOException {
        rails.onRailEnded(new RailEnded(word.rail(), word.generation(), List.of()));
    }

    @Test
    void shouldConnectARailWhenItIsFirstNeeded() throws Exception {
        open(PATIENT, rail("low", 1, 0), rail("high", 10, 0), rail("too", 10, 0));
        assertEquals(Set.of(1), lines.keySet());
        send(0, CHUNK_BYTES);
        untilSent(1, 0);
        until("the other of that priority is connected", () -> lines.containsKey(2));
        assertFalse(lines.containsKey(0), "the one of lower priority is not needed");
    }

    @Test
    void shouldSendOnTheRailWithTheFewestChunksUnderWay() throws Exception {
        open(PATIENT, rail("a", 0, 0), rail("b", 0, 0));
        send(0, CHUNK_BYTES);
        until("both are connected", () -> lines.size() == 2);
        until("the other one takes what comes", () -> {
            try {
                if (lines.get(1).sent.isEmpty()) {
                    send(1, CHUNK_BYTES);
                    lines.get(lines.get(1).sent.isEmpty() ? 0 : 1).releases.released(1);
                }
                return !lines.get(1).sent.isEmpty();
            } catch (IOException e) {
                throw new AssertionError(e);
            }
        });
        for (int chunk = 2; chunk < CHUNKS; chunk++) {
            send(chunk, CHUNK_BYTES);
        }
        long onFirst = lines.get(0).sent.stream().filter(chunk -> chunk >= 2).count();
        assertTrue(onFirst >= 2 && onFirst <= 4, lines.get(0).sent + " " + lines.get(1).sent);
    }

    @Test
    void shouldRespectTheMinimumPieceSizeWhenThereIsARailForSmallPieces() throws Exception {
        open(PATIENT, rail("large", 10, GATE_BYTES), rail("any", 1, 0));
        send(0, GATE_BYTES - 1);
        send(1, GATE_BYTES);
        send(2, 1);
        untilSent(1, 0);
        untilSent(0, 1);
        untilSent(1, 2);
        assertEquals(List.of(1), lines.get(0).sent);
    }

    @Test
    void shouldSendASmallPieceOnAnyRailWhenNoneIsForIt() throws Exception {
        open(PATIENT, rail("large", 10, GATE_BYTES));
        send(0, 1);
        untilSent(0, 0);
    }

    @Test
    void shouldRetransmitOnlyMissingChunksAfterTheTargetEndedTheRail() throws Exception {
        open(PATIENT, rail("a", 10, 0), rail("b", 1, 0));
        send(0, CHUNK_BYTES);
        send(1, CHUNK_BYTES);
        FakeLine lost = lines.get(0);
        lost.arrived.add(0);
        lost.onFailure.accept("cut");
        EndRail word = asked();
        assertEquals(new EndRail(0, 1), word);
        assertTrue(lost.closed, "the source's end is closed first");
        send(2, CHUNK_BYTES);
        untilSent(1, 2);
        assertEquals(List.of(2), lines.get(1).sent, "nothing is retransmitted before the answer");
        assertEquals(List.of(), released);
        answer(word);
        untilSent(1, 1);
        assertEquals(List.of(2, 1), lines.get(1).sent);
        assertEquals(List.of(0), released, "what has arrived comes back once");
    }

    @Test
    void shouldCountARailAsLostWithoutProgress() throws Exception {
        open(
                new RailSender.RailLimits(
                        TimeUnit.MILLISECONDS.toNanos(200), PATIENT.answerNs(), PATIENT.firstBackOffNs()),
                rail("a", 10, 0),
                rail("b", 1, 0));
        send(0, CHUNK_BYTES);
        answer(asked());
        untilSent(1, 0);
        lines.get(1).releases.released(0);
        assertEquals(List.of(0), released);
    }

    @Test
    void shouldReconnectAFailedRailAfterItsBackOff() throws Exception {
        open(
                new RailSender.RailLimits(PATIENT.silenceNs(), PATIENT.answerNs(), TimeUnit.MILLISECONDS.toNanos(20)),
                rail("a", 10, 0),
                rail("b", 1, 0));
        FakeLine first = lines.get(0);
        first.onFailure.accept("cut");
        refused.put(0, "no route");
        answer(asked());
        long before = opened.get();
        until("it is retried twice", () -> opened.get() >= before + 2);
        refused.clear();
        until("it works again", () -> lines.get(0) != first);
        send(0, CHUNK_BYTES);
        until("one of them takes it", () -> lines.values().stream().anyMatch(line -> line.sent.contains(0)));
        until("it takes chunks", () -> {
            try {
                if (lines.get(0).sent.isEmpty()) {
                    send(1, CHUNK_BYTES);
                    FakeLine took = lines.get(0).sent.contains(1) ? lines.get(0) : lines.get(1);
                    took.releases.released(1);
                }
                return !lines.get(0).sent.isEmpty();
            } catch (IOException e) {
                throw new AssertionError(e);
            }
        });
    }

    @Test
    void shouldFailByNameWhenNoRailWorks() throws Exception {
        open(PATIENT, rail("ib0", 10, 0), rail("eth1", 1, 0));
        send(0, CHUNK_BYTES);
        refused.put(0, "no route");
        refused.put(1, "no listener");
        lines.get(0).onFailure.accept("its cable was pulled");
        answer(asked());
        until("it fails", () -> !failures.isEmpty());
        assertEquals(1, failures.size());
        assertTrue(failures.get(0).contains("ib0: its cable was pulled; eth1: no listener"), failures.get(0));
        IOException later = assertThrows(IOException.class, () -> send(1, CHUNK_BYTES));
        assertEquals(failures.get(0), later.getMessage());
    }

    @Test
    void shouldReconnectAWorkingRailAtOnceWhenNoOtherWorks() throws Exception {
        open(PATIENT, rail("a", 0, 0));
        FakeLine first = lines.get(0);
        send(0, CHUNK_BYTES);
        first.releases.released(0);
        send(1, CHUNK_BYTES);
        first.onFailure.accept("cut");
        answer(asked());
        until("it is connected again", () -> lines.get(0) != first);
        untilSent(0, 1);
        assertEquals(List.of(), failures);
    }

    @Test
    void shouldFailByNameWhenNoRailCanBeConnectedAtTheBeginning() {
        refused.put(0, "no route");
        refused.put(1, "no listener");
        IOException e = assertThrows(IOException.class, () -> open(PATIENT, rail("ib0", 10, 0), rail("eth1", 1, 0)));
        assertTrue(e.getMessage().contains("ib0: no route; eth1: no listener"), e.getMessage());
    }

    @Test
    void shouldFailByNameWhenTheTargetDoesNotEndARailInTime() throws Exception {
        open(
                new RailSender.RailLimits(
                        PATIENT.silenceNs(), TimeUnit.MILLISECONDS.toNanos(100), PATIENT.firstBackOffNs()),
                rail("a", 10, 0),
                rail("b", 1, 0));
        send(0, CHUNK_BYTES);
        lines.get(0).onFailure.accept("cut");
        until("it fails", () -> !failures.isEmpty());
        assertTrue(failures.get(0).contains("did not end rail a within 100 ms"), failures.get(0));
    }

    @Test
    void shouldEndTheSessionWhenTheTargetEndsARailWithoutARequest() throws Exception {
        open(PATIENT, rail("a", 10, 0), rail("b", 1, 0));
        send(0, CHUNK_BYTES);
        ProtocolException unasked =
                assertThrows(ProtocolException.class, () -> rails.onRailEnded(new RailEnded(0, 1, List.of(1L))));
        assertTrue(unasked.getMessage().contains("unexpected message RailEnded"), unasked.getMessage());
        lines.get(0).onFailure.accept("cut");
        EndRail word = asked();
        for (RailEnded other : List.of(
                new RailEnded(1, 1, List.of()), new RailEnded(0, 2, List.of()), new RailEnded(-1, 1, List.of()))) {
            assertThrows(ProtocolException.class, () -> rails.onRailEnded(other));
        }
        answer(word);
        untilSent(1, 0);
    }

    @Test
    void shouldFailByNameWhenTheTargetReportsMoreChunksThanWereSent() throws Exception {
        open(PATIENT, rail("a", 10, 0), rail("b", 1, 0));
        send(0, CHUNK_BYTES);
        lines.get(0).lies = true;
        lines.get(0).onFailure.accept("cut");
        answer(asked());
        until("it fails", () -> !failures.isEmpty());
        assertTrue(failures.get(0).contains("more have arrived than were sent"), failures.get(0));
        assertEquals(List.of(), released);
    }

    @Test
    void shouldEndTheConnectionWhenAChunkOfAnotherRailIsReleased() throws Exception {
        open(PATIENT, rail("a", 10, 0), rail("b", 1, 0));
        send(0, CHUNK_BYTES);
        for (int chunk : new int[] {-1, 1, CHUNKS}) {
            assertThrows(ProtocolException.class, () -> lines.get(0).releases.released(chunk));
        }
        lines.get(0).releases.released(0);
        assertThrows(ProtocolException.class, () -> lines.get(0).releases.released(0));
        assertEquals(List.of(0), released);
    }
}
