package io.ppmr.protocol.control;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;

import io.ppmr.protocol.data.DataMessage;
import io.ppmr.protocol.data.Frame;
import io.ppmr.protocol.data.FrameType;
import io.ppmr.protocol.data.MemoryWay;
import io.ppmr.protocol.data.Message;
import io.ppmr.protocol.data.NodeKind;
import io.ppmr.protocol.data.ProtocolException;
import io.ppmr.protocol.data.RdmaMode;
import io.ppmr.protocol.data.TransferReport;
import io.ppmr.protocol.data.TransferReport.ReadSample;
import java.util.List;
import java.util.UUID;
import net.jqwik.api.Arbitraries;
import net.jqwik.api.Arbitrary;
import net.jqwik.api.Combinators;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.Provide;
import net.jqwik.api.constraints.IntRange;
import net.jqwik.api.constraints.Size;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;

/** Tests properties of messages with any content, and of bytes that are not a message. */
class MessagePropertyTest {
    private static final int AT = 24;

    @Provide
    Arbitrary<Message> messages() {
        Arbitrary<String> text = Combinators.combine(
                        Arbitraries.strings().withCharRange('\0', '\uD7FF').ofMaxLength(200),
                        Arbitraries.of("", "\uD83D\uDE00", "\uE000\uFFFF"))
                .as(String::concat);
        Arbitrary<Integer> number = Arbitraries.integers();
        Arbitrary<Long> wide = Arbitraries.longs();
        Arbitrary<List<Integer>> numbers = number.list().ofMaxSize(40);
        Arbitrary<TransferReport> reports = Combinators.combine(
                        wide,
                        wide,
                        wide,
                        wide,
                        wide,
                        Combinators.combine(wide, wide)
                                .as(ReadSample::new)
                                .list()
                                .ofMaxSize(50))
                .as(TransferReport::new);
        Arbitrary<List<Integer>> ranks =
                Arbitraries.integers().greaterOrEqual(0).list().ofMaxSize(40);
        Arbitrary<String> peer = Combinators.combine(
                        Arbitraries.of("n", "node-7.site", "[2001:db8::7]", "0:0:0:0:0:0:0:1", "fe80::1%eth0"),
                        Arbitraries.integers().between(0, 65_535))
                .as((host, port) -> host + ":" + port);
        Arbitrary<List<String>> peers =
                peer.list().uniqueElements().ofMinSize(1).ofMaxSize(8);
        Arbitrary<List<String>> places = ranks.map(some ->
                some.stream().distinct().map(rank -> rank + " node-" + rank).toList());
        Arbitrary<Long> times = Arbitraries.longs().between(0, 365L * 24 * 3600 * 1000);
        return Arbitraries.oneOf(List.<Arbitrary<? extends Message>>of(
                Combinators.combine(text, number, ranks, peers, places)
                        .as((t, n, some, all, where) -> new ControlMessage.Begin(
                                t,
                                new MigrationSecret(n, n + 1),
                                t + "j",
                                t + "c",
                                n + 2,
                                n + 3,
                                some,
                                new ControlMessage.Begin.TransferPlan(n, n + 1, n + 5, Math.abs((long) n)),
                                all,
                                Math.floorMod(n, all.size()),
                                new ControlMessage.Begin.Placement(some, where),
                                bootId(n))),
                Combinators.combine(wide, times, times)
                        .as((clock, window, silence) ->
                                new ControlMessage.Accept(clock, window, silence, bootId(clock))),
                Combinators.combine(Arbitraries.of(RdmaMode.class).optional(), number, text)
                        .as((mode, port, why) -> new DataMessage.Offer(mode, port, why)),
                Combinators.combine(wide, wide, wide, wide, number).as(DataMessage.Writable::new),
                Combinators.combine(Arbitraries.of(true, false), wide, wide, text, text)
                        .as(DataMessage.Attached::new),
                Combinators.combine(text, text, number, Arbitraries.of(true, false))
                        .as(DataMessage.OfferedRail::new)
                        .list()
                        .ofMaxSize(8)
                        .map(DataMessage.OfferedRails::new),
                Combinators.combine(number, number).as(DataMessage.EndRail::new),
                Combinators.combine(number, number, wide.list().ofMaxSize(8)).as(DataMessage.RailEnded::new),
                text.map(ControlMessage.Refuse::new),
                Combinators.combine(number, Arbitraries.of(NodeKind.class), text, number, number, number, text)
                        .as(DataMessage.Created::new),
                Combinators.combine(text, text).as(DataMessage.Renamed::new),
                text.map(DataMessage.Removed::new),
                Combinators.combine(text, number, number, number, wide).as(DataMessage.Changed::new),
                Combinators.combine(number, numbers).as(ControlMessage.Restored::new),
                Combinators.combine(number, numbers, numbers, numbers).as(ControlMessage.StoppedByJob::new),
                Combinators.combine(
                                number, Arbitraries.of(true, false), text.list().ofMaxSize(8))
                        .as(ControlMessage.OriginalRights::new),
                Combinators.combine(number, text.list().ofMaxSize(8), numbers).as(ControlMessage.CarriedFiles::new),
                number.map(ControlMessage.FilesPlaced::new),
                reports.map(ControlMessage.Prepared::new),
                text.map(ControlMessage.Commit::new),
                text.map(ControlMessage.Committed::new),
                Combinators.combine(text, text).as(ControlMessage.RollBack::new),
                Combinators.combine(text, text).as(ControlMessage.RolledBack::new),
                text.map(DataMessage.TransferFailure::new),
                Combinators.combine(wide, wide, wide).as(DataMessage.Progress::new),
                text.map(ControlMessage.Confirm::new),
                text.map(ControlMessage.StillHeld::new),
                Combinators.combine(text, text).as(ControlMessage.NotHeld::new),
                text.map(ControlMessage.TakeOver::new),
                Combinators.combine(text, Arbitraries.of(VoterState.class), wide)
                        .as(ControlMessage.ParticipantStatus::new),
                Combinators.combine(text, peer, wide)
                        .as((t, from, n) -> new ControlMessage.Participation(t, from, new MigrationSecret(n, n + 1))),
                Combinators.combine(text, wide, wide).as(ControlMessage.StatusQuery::new),
                Combinators.combine(number, Arbitraries.longs().between(0, 60_000))
                        .as((n, lease) -> new ControlMessage.AddressAway(
                                "10.20.0." + (n & 0xff), "m-" + (n & 0xff), lease, "%064x".formatted(n & 0xffff))),
                number.map(ControlMessage.AddressAwayAck::new),
                text.list().ofMaxSize(20).map(paths -> new ControlMessage.InspectFiles(1, 2, 's', paths)),
                text.list().ofMaxSize(20).map(lines -> new ControlMessage.FilesInspected("k", false, lines, "")),
                Combinators.combine(nodes(), jobs()).as(ControlMessage.Introduce::new),
                Combinators.combine(
                                nodes(),
                                Arbitraries.of(MemoryWay.class),
                                Combinators.combine(Arbitraries.of(Finding.Level.class), text, text, text)
                                        .as(Finding::new)
                                        .list()
                                        .ofMaxSize(10))
                        .as(ControlMessage.Introduced::new)));
    }

    private static Arbitrary<NodeFacts> nodes() {
        Arbitrary<String> text = Arbitraries.strings().alpha().ofMaxLength(20);
        Arbitrary<List<String>> texts = text.list().ofMaxSize(20);
        Arbitrary<Long> wide = Arbitraries.longs();
        Arbitrary<List<NodeFacts.Tool>> tools = Combinators.combine(text, Arbitraries.of(true, false), text)
                .as(NodeFacts.Tool::new)
                .list()
                .ofMaxSize(5);
        return Combinators.combine(text, texts, wide, wide, wide, Arbitraries.integers(), texts, tools)
                .as((name, features, clock, available, staging, chunk, ports, some) -> new NodeFacts(
                        name, "amd64", "6.1", "glibc", "17", clock, available, staging, chunk, features, ports, some));
    }

    private static Arbitrary<JobFacts> jobs() {
        Arbitrary<String> text = Arbitraries.strings().alpha().ofMaxLength(20);
        return Combinators.combine(
                        text,
                        Arbitraries.longs(),
                        Arbitraries.longs(),
                        Arbitraries.integers().list().ofMaxSize(20),
                        Arbitraries.of(MemoryWay.class))
                .as((tool, resident, streamable, pids, way) ->
                        new JobFacts(tool, resident, streamable, pids).sent(way));
    }

    @Property
    void shouldReadWhatWasWritten(@ForAll("messages") Message message, @ForAll int attempt) throws ProtocolException {
        DirectBuffer frame = message.frame(attempt);
        UnsafeBuffer stream = new UnsafeBuffer(new byte[AT + frame.capacity() + 8]);
        stream.putBytes(AT, frame, 0, frame.capacity());
        assertEquals(FrameType.MESSAGE, Frame.requireValid(stream, AT));
        assertEquals(attempt, Frame.attempt(stream, AT));
        assertEquals(message, ControlMessage.read(stream, AT));
    }

    @Property(tries = 10_000)
    void shouldRefuseGarbageByNameAndNothingElse(
            @ForAll @IntRange(min = 0, max = 38) int code, @ForAll @Size(max = 120) byte[] rest) {
        byte[] body = new byte[rest.length + 1];
        body[0] = (byte) code;
        System.arraycopy(rest, 0, body, 1, rest.length);
        readOrRefuse(body);
    }

    @Property(tries = 2_000)
    void shouldRefuseADamagedMessageByNameAndNothingElse(
            @ForAll("messages") Message message, @ForAll @IntRange(max = 1 << 20) int place, @ForAll byte damage) {
        DirectBuffer frame = message.frame(1);
        byte[] body = new byte[frame.capacity() - Frame.HEADER_BYTES];
        frame.getBytes(Frame.HEADER_BYTES, body);
        body[place % body.length] ^= damage;
        readOrRefuse(body);
    }

    @Property(tries = 2_000)
    void shouldRefuseAGarbageHeaderByNameAndNothingElse(@ForAll @Size(Frame.HEADER_BYTES) byte[] header) {
        UnsafeBuffer frame = new UnsafeBuffer(header);
        try {
            assertNotNull(Frame.requireValid(frame, 0));
        } catch (ProtocolException e) {
            assertNotNull(e.getMessage());
        }
    }

    private static void readOrRefuse(byte[] body) {
        UnsafeBuffer frame = new UnsafeBuffer(new byte[Frame.HEADER_BYTES + body.length]);
        Frame.writeHeader(frame, 0, FrameType.MESSAGE, frame.capacity(), 1, 0);
        frame.putBytes(Frame.HEADER_BYTES, body);
        try {
            assertNotNull(ControlMessage.read(frame, 0));
        } catch (ProtocolException e) {
            assertNotNull(e.getMessage());
        }
    }

    private static String bootId(long number) {
        return number % 2 == 0 ? "" : new UUID(number, number).toString();
    }
}
