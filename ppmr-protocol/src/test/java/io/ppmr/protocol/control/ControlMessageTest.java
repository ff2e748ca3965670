package io.ppmr.protocol.control;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.protocol.data.DataMessage;
import io.ppmr.protocol.data.Frame;
import io.ppmr.protocol.data.FrameType;
import io.ppmr.protocol.data.MemoryWay;
import io.ppmr.protocol.data.Message;
import io.ppmr.protocol.data.NodeKind;
import io.ppmr.protocol.data.ProtocolException;
import io.ppmr.protocol.data.ProtocolVersion;
import io.ppmr.protocol.data.RdmaMode;
import io.ppmr.protocol.data.TransferReport;
import io.ppmr.protocol.data.TransferReport.ReadSample;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** The bytes of every message. They are the wire format: a change here is a new version of the protocol. */
class ControlMessageTest {
    private static final String TOKEN = "a1".repeat(32);

    private static final int ATTEMPT = 7;
    private static final String BOOT_ID = "01234567-89ab-cdef-0123-456789abcdef";
    private static final String BOOT_ID_BYTES =
            " 24 30313233343536372d383961622d636465662d303132332d343536373839616263646566";

    private static final NodeFacts NODE = new NodeFacts(
            "n1",
            "amd64",
            "6.1",
            "glibc 2",
            "17",
            1,
            2,
            3,
            131072,
            List.of("avx", "aes"),
            List.of("mlx5_0/1"),
            List.of(new NodeFacts.Tool("criu", true, "4")));

    private static final String NODE_BYTES = " 02 6e31 05 616d643634 03 362e31 07 676c6962632032 02 3137"
            + " 0100000000000000 0200000000000000 0300000000000000 00000200"
            + " 02000000 03 617678 03 616573 01000000 08 6d6c78355f302f31"
            + " 01000000 04 63726975 01 01 34";

    static Stream<Arguments> golden() {
        return Stream.of(
                Arguments.of(
                        new ControlMessage.Begin(
                                "m-1",
                                new MigrationSecret(0x1122334455667788L, 5),
                                "job",
                                "criu",
                                1000,
                                100,
                                List.of(0, 1),
                                new ControlMessage.Begin.TransferPlan(131072, 2, 3, 5),
                                List.of("t:1", "u:2"),
                                1,
                                new ControlMessage.Begin.Placement(List.of(0, 1), List.of("0 u")),
                                ""),
                        "01 03 6d2d31 8877665544332211 0500000000000000 03 6a6f62 04 63726975"
                                + " e8030000 64000000 02000000 00000000 01000000"
                                + " 00000200 02000000 03000000 0500000000000000"
                                + " 02000000 03 743a31 03 753a32 01000000"
                                + " 02000000 00000000 01000000 01000000 03 302075"),
                Arguments.of(
                        new ControlMessage.Accept(0x1122334455667788L, 30_000, 1, ""),
                        "02 8877665544332211 3075000000000000 0100000000000000"),
                Arguments.of(new DataMessage.Offer(Optional.of(RdmaMode.READ), 4660, "ok"), "28 01 34120000 02 6f6b"),
                Arguments.of(new DataMessage.Offer(Optional.of(RdmaMode.WRITE), 4660, "ok"), "28 02 34120000 02 6f6b"),
                Arguments.of(new DataMessage.Offer(Optional.empty(), 0, "ok"), "28 00 00000000 02 6f6b"),
                Arguments.of(
                        new DataMessage.Writable(0x1122334455667788L, 5, 0x99L, 6, 64),
                        "2a 8877665544332211 0500000000000000 9900000000000000 0600000000000000 40000000"),
                Arguments.of(
                        new DataMessage.Attached(true, 0x1122334455667788L, 5, "ab", "ok"),
                        "29 01 8877665544332211 0500000000000000 02 6162 02 6f6b"),
                Arguments.of(
                        new DataMessage.OfferedRails(
                                List.of(new DataMessage.OfferedRail("ib0", "10.1.0.2", 4660, true))),
                        "2b 01000000 03 696230 08 31302e312e302e32 34120000 01"),
                Arguments.of(new DataMessage.EndRail(1, 7), "2c 01000000 07000000"),
                Arguments.of(
                        new DataMessage.RailEnded(1, 7, List.of(0x1122334455667788L, 5L)),
                        "2d 01000000 07000000 02000000 8877665544332211 0500000000000000"),
                Arguments.of(new ControlMessage.Refuse("busy"), "03 04 62757379"),
                Arguments.of(
                        new DataMessage.Created(5, NodeKind.SYMLINK, "/rank-0/l", 0777, 1000, 100, "to"),
                        "04 05000000 03 09 2f72616e6b2d302f6c ff010000 e8030000 64000000 02 746f"),
                Arguments.of(new DataMessage.Renamed("/a", "/b"), "05 02 2f61 02 2f62"),
                Arguments.of(new DataMessage.Removed("/a"), "06 02 2f61"),
                Arguments.of(
                        new DataMessage.Changed("/a", 0600, 1, 2, 0x1122334455667788L),
                        "07 02 2f61 80010000 01000000 02000000 8877665544332211"),
                Arguments.of(
                        new ControlMessage.Restored(3, List.of(4242, 4243)), "08 03000000 02000000 92100000 93100000"),
                Arguments.of(
                        new ControlMessage.StoppedByJob(3, List.of(7, 8), List.of(-1, 0), List.of(1)),
                        "17 03000000 02000000 07000000 08000000 02000000 ffffffff 00000000 01000000 01000000"),
                Arguments.of(
                        new ControlMessage.CarriedFiles(3, List.of("/a", "/b"), List.of(1)),
                        "26 03000000 02000000 02 2f61 02 2f62 01000000 01000000"),
                Arguments.of(new ControlMessage.FilesPlaced(3), "27 03000000"),
                Arguments.of(
                        new ControlMessage.OriginalRights(3, true, List.of("root /", "x")),
                        "18 03000000 01 02000000 06 726f6f74202f 01 78"),
                Arguments.of(
                        new ControlMessage.Prepared(new TransferReport(1, 2, 3, 4, 5, List.of(new ReadSample(6, 7)))),
                        "09 0100000000000000 0200000000000000 0300000000000000 0400000000000000 0500000000000000"
                                + " 01000000 0600000000000000 0700000000000000"),
                Arguments.of(new ControlMessage.Commit("m-1"), "0a 03 6d2d31"),
                Arguments.of(new ControlMessage.Committed("m-1"), "0b 03 6d2d31"),
                Arguments.of(new ControlMessage.RollBack("m-1", "no"), "0c 03 6d2d31 02 6e6f"),
                Arguments.of(new ControlMessage.RolledBack("m-1", "no"), "0d 03 6d2d31 02 6e6f"),
                Arguments.of(new DataMessage.TransferFailure("no"), "0e 02 6e6f"),
                Arguments.of(
                        new DataMessage.Progress(1, 2, -1), "0f 0100000000000000 0200000000000000 ffffffffffffffff"),
                Arguments.of(new ControlMessage.Confirm("m-1"), "10 03 6d2d31"),
                Arguments.of(new ControlMessage.StillHeld("m-1"), "11 03 6d2d31"),
                Arguments.of(new ControlMessage.NotHeld("m-1", "no"), "12 03 6d2d31 02 6e6f"),
                Arguments.of(new ControlMessage.TakeOver("m-1"), "13 03 6d2d31"),
                Arguments.of(
                        new ControlMessage.ParticipantStatus("m-1", VoterState.COMMITTED, 5),
                        "14 03 6d2d31 04 0500000000000000"),
                Arguments.of(
                        new ControlMessage.Participation("m-1", "t:1", new MigrationSecret(0x1122334455667788L, 5)),
                        "16 03 6d2d31 03 743a31 8877665544332211 0500000000000000"),
                // From the source.
                Arguments.of(
                        new ControlMessage.Participation("m-1", "", new MigrationSecret(6, 5)),
                        "16 03 6d2d31 00 0600000000000000 0500000000000000"),
                Arguments.of(
                        new ControlMessage.StatusQuery("m-1", 5, 6), "15 03 6d2d31 0500000000000000 0600000000000000"),
                Arguments.of(
                        new ControlMessage.Introduce(NODE, new JobFacts("criu", 7, 6, List.of(8))),
                        "20" + NODE_BYTES + " 04 63726975 0700000000000000 0600000000000000 01 01000000 08000000"),
                Arguments.of(
                        new ControlMessage.AddressAway("10.20.0.12", "m-1", 10_000, TOKEN),
                        "22 0a 31302e32302e302e3132 03 6d2d31 1027000000000000 40 " + "6131".repeat(32)),
                Arguments.of(new ControlMessage.AddressAwayAck(3), "23 03000000"),
                // The second path has the byte 0xe4, which is one character here and two bytes in UTF-8.
                Arguments.of(
                        new ControlMessage.InspectFiles(5, 6, 's', List.of("/b", "/\u00e4")),
                        "24 05000000 06000000 73000000 02000000 02 2f62 03 2fc3a4"),
                Arguments.of(
                        new ControlMessage.FilesInspected("k", true, List.of("error 2"), "no"),
                        "25 01 6b 01 01000000 07 6572726f722032 02 6e6f"),
                Arguments.of(
                        new ControlMessage.Introduced(
                                NODE, MemoryWay.PRECOPIED, List.of(Finding.fail("cpu", "no", "go"))),
                        "21" + NODE_BYTES + " 02 01000000 02 03 637075 02 6e6f 02 676f"));
    }

    /** The messages with fields of version 10. */
    static Stream<Arguments> goldenOfVersion10() {
        return Stream.of(
                Arguments.of(
                        new ControlMessage.Begin(
                                "m-1",
                                new MigrationSecret(0x1122334455667788L, 5),
                                "job",
                                "criu",
                                1000,
                                100,
                                List.of(0),
                                new ControlMessage.Begin.TransferPlan(131072, 2, 3, 5),
                                List.of("t:1"),
                                0,
                                new ControlMessage.Begin.Placement(List.of(0), List.of("0 u")),
                                BOOT_ID),
                        "01 03 6d2d31 8877665544332211 0500000000000000 03 6a6f62 04 63726975"
                                + " e8030000 64000000 01000000 00000000"
                                + " 00000200 02000000 03000000 0500000000000000"
                                + " 01000000 03 743a31 00000000"
                                + " 01000000 00000000 01000000 03 302075" + BOOT_ID_BYTES),
                Arguments.of(
                        new ControlMessage.Accept(0x1122334455667788L, 30_000, 1, BOOT_ID),
                        "02 8877665544332211 3075000000000000 0100000000000000" + BOOT_ID_BYTES));
    }

    @ParameterizedTest
    @MethodSource({"golden", "goldenOfVersion10"})
    void shouldWriteAndReadTheseBytes(Message message, String hexOfBody) throws ProtocolException {
        DirectBuffer frame = message.frame(ATTEMPT);
        byte[] body = new byte[frame.capacity() - Frame.HEADER_BYTES];
        frame.getBytes(Frame.HEADER_BYTES, body);
        assertEquals(hexOfBody.replace(" ", ""), HexFormat.of().formatHex(body));
        assertSame(FrameType.MESSAGE, Frame.requireValid(frame, 0));
        assertEquals(ATTEMPT, Frame.attempt(frame, 0));
        assertEquals(frame.capacity(), Frame.lengthBytes(frame, 0));
        assertEquals(message, ControlMessage.read(frame, 0));
    }

    private static ControlMessage.Begin begin(
            List<String> participants, int place, List<Integer> ranks, String... places) {
        return begin("", participants, place, ranks, places);
    }

    private static ControlMessage.Begin begin(
            String bootId, List<String> participants, int place, List<Integer> ranks, String... places) {
        return new ControlMessage.Begin(
                "m",
                MigrationSecret.random(),
                "j",
                "c",
                1,
                1,
                ranks,
                new ControlMessage.Begin.TransferPlan(1, 1, 1, 0),
                participants,
                place,
                new ControlMessage.Begin.Placement(ranks, List.of(places)),
                bootId);
    }

    static Stream<ControlMessage> unsoundPlans() {
        List<Integer> ranks = List.of(0);
        List<String> two = List.of("a:1", "b:1");
        return Stream.of(
                begin(List.of(), 0, ranks),
                begin(List.of("a:1", "a:1"), 0, ranks),
                begin(List.of("a"), 0, ranks),
                begin(List.of(":1"), 0, ranks),
                begin(List.of("a:65536"), 0, ranks),
                begin(List.of("a:-1"), 0, ranks),
                begin(List.of("a b:1"), 0, ranks),
                begin(List.of("a\n:1"), 0, ranks),
                begin(List.of("a".repeat(256) + ":1"), 0, ranks),
                begin(two, -1, ranks),
                begin(two, 2, ranks),
                begin(two, 0, List.of(-1)),
                begin(two, 0, ranks, "0"),
                begin(two, 0, ranks, "0 "),
                begin(two, 0, ranks, "-1 a"),
                begin(two, 0, ranks, "2147483648 a"),
                begin(two, 0, ranks, "0 a", "0 b"),
                begin(two, 0, ranks, "0 a\n1 b"),
                begin(two, 0, ranks, "0 a b"),
                new ControlMessage.Participation("m", "x", MigrationSecret.NONE),
                new ControlMessage.Participation("m", "x:y", MigrationSecret.NONE),
                new ControlMessage.Accept(0, -1, 1, ""),
                new ControlMessage.Accept(0, Long.MAX_VALUE, 1, ""),
                new ControlMessage.Accept(0, 1, -1, ""),
                new ControlMessage.Accept(0, 1, Long.MAX_VALUE, ""),
                new ControlMessage.Accept(0, 1, 1, "../etc"),
                new ControlMessage.Accept(0, 1, 1, BOOT_ID.toUpperCase(Locale.ROOT)),
                new ControlMessage.Accept(0, 1, 1, BOOT_ID + "\n"),
                begin("x".repeat(60_000), List.of("a:7"), 0, ranks, "0 a"),
                begin(BOOT_ID + BOOT_ID, List.of("a:7"), 0, ranks, "0 a"));
    }

    /** A message of the release before ends where the added field would begin. */
    @Test
    void shouldReadAMessageWithoutTheFieldsThatALaterVersionAdded() throws ProtocolException {
        for (ControlMessage message : List.of(
                new ControlMessage.Accept(1, 2, 3, BOOT_ID), begin(BOOT_ID, List.of("t:1"), 0, List.of(0), "0 u"))) {
            assertEquals(ProtocolVersion.V10, message.since());
            DirectBuffer frame = message.frame(ATTEMPT);
            int addedBytes = 1 + BOOT_ID.length();
            for (int gone = 1; gone <= addedBytes; gone++) {
                byte[] cut = new byte[frame.capacity() - Frame.HEADER_BYTES - gone];
                frame.getBytes(Frame.HEADER_BYTES, cut);
                if (gone < addedBytes) {
                    assertThrows(ProtocolException.class, () -> decode(cut), gone + " bytes less");
                } else {
                    Message older = decode(cut);
                    assertEquals(ProtocolVersion.V9, older.since());
                    assertEquals(
                            "",
                            older instanceof ControlMessage.Begin begin
                                    ? begin.bootId()
                                    : ((ControlMessage.Accept) older).bootId());
                }
            }
            byte[] more = new byte[frame.capacity() - Frame.HEADER_BYTES + 1];
            frame.getBytes(Frame.HEADER_BYTES, more, 0, more.length - 1);
            assertThrows(ProtocolException.class, () -> decode(more), "a byte more");
        }
    }

    @ParameterizedTest
    @MethodSource("unsoundPlans")
    void shouldRefuseInvalidParticipantsRankNodesOrWindows(ControlMessage message) {
        DirectBuffer frame = message.frame(ATTEMPT);
        ProtocolException e = assertThrows(ProtocolException.class, () -> ControlMessage.read(frame, 0));
        assertTrue(e.getMessage().contains("invalid or repeated"), e.getMessage());
        assertTrue(e.getMessage().length() < 250 && !e.getMessage().contains("\n"), e.getMessage());
    }

    @Test
    void shouldReadTheWrittenPodsOfAJob() throws ProtocolException {
        PodFacts pod = new PodFacts(
                new PodSpecification("ring", "rings", "mpi", List.of("A=b"), List.of("./ring", "5"), 3, "600s"),
                1,
                2,
                new PodAddresses("10.20.0.10", "fd00:20::a14:a", "02:50:0a:14:00:0a"),
                24,
                1500,
                List.of("/usr"),
                7,
                true);
        JobFacts job = new JobFacts("criu", 7, 0, List.of(8)).withPods(Map.of(0, pod, 5, pod.answering(false)));
        ControlMessage.Introduce introduce = new ControlMessage.Introduce(NODE, job);
        DirectBuffer frame = introduce.frame(ATTEMPT);
        assertEquals(introduce, ControlMessage.read(frame, 0));
        for (int gone = 1; gone < 30; gone++) {
            byte[] cut = new byte[frame.capacity() - Frame.HEADER_BYTES - gone];
            frame.getBytes(Frame.HEADER_BYTES, cut);
            assertThrows(ProtocolException.class, () -> decode(cut));
        }
    }

    @Test
    void shouldHaveGoldenBytesForEveryMessage() {
        Set<Class<?>> covered = new HashSet<>();
        golden().forEach(row -> covered.add(row.get()[0].getClass()));
        assertEquals(kinds(), covered);
    }

    /** Every message of both planes. */
    static Set<Class<?>> kinds() {
        Set<Class<?>> kinds = new HashSet<>();
        for (Class<?> sealed : List.of(
                ControlMessage.class,
                ControlMessage.OfTransaction.class,
                DataMessage.class,
                DataMessage.NameChange.class)) {
            Collections.addAll(kinds, sealed.getPermittedSubclasses());
        }
        kinds.removeIf(Class::isInterface);
        return kinds;
    }

    @ParameterizedTest
    @MethodSource("golden")
    void shouldRefuseAMessageThatEndsTooEarlyOrTooLate(Message message, String hexOfBody) {
        byte[] body = HexFormat.of().parseHex(hexOfBody.replace(" ", ""));
        for (int length = 0; length < body.length; length++) {
            byte[] cut = java.util.Arrays.copyOf(body, length);
            assertThrows(ProtocolException.class, () -> decode(cut), message + " cut to " + cut.length + " bytes");
        }
        byte[] longer = java.util.Arrays.copyOf(body, body.length + 1);
        ProtocolException e = assertThrows(ProtocolException.class, () -> decode(longer));
        boolean hasAddedText = message instanceof ControlMessage.Begin || message instanceof ControlMessage.Accept;
        String reason = hasAddedText ? "an empty text at the end" : "1 bytes too many";
        assertTrue(e.getMessage().contains(reason), e.getMessage());
    }

    @Test
    void shouldRefuseAMessageOfUnknownCode() {
        for (int code : new int[] {0, 31, 46, 255}) {
            ProtocolException e = assertThrows(ProtocolException.class, () -> decode(new byte[] {(byte) code, 0, 0}));
            assertTrue(e.getMessage().contains("unknown code " + code), e.getMessage());
        }
    }

    @Test
    void shouldRefuseAddressAwayWithAnInvalidAddressOrALongLease() throws ProtocolException {
        for (ControlMessage.AddressAway away : List.of(
                new ControlMessage.AddressAway("10.20.0.12'; reboot", "m-1", 1, TOKEN),
                new ControlMessage.AddressAway("", "m-1", 1, TOKEN),
                new ControlMessage.AddressAway("10.20.0.12", "m 1", 1, TOKEN),
                new ControlMessage.AddressAway("10.20.0.12", "m-1\n", 1, TOKEN),
                new ControlMessage.AddressAway("10.20.0.12", "m-1", -1, TOKEN),
                new ControlMessage.AddressAway("10.20.0.12", "m-1", 60_001, TOKEN),
                new ControlMessage.AddressAway("10.20.0.12", "m-1", 1, ""),
                new ControlMessage.AddressAway("10.20.0.12", "m-1", 1, TOKEN + "0"),
                new ControlMessage.AddressAway("10.20.0.12", "m-1", 0, TOKEN.replace('a', 'A')))) {
            ProtocolException e =
                    assertThrows(ProtocolException.class, () -> ControlMessage.read(away.frame(ATTEMPT), 0));
            assertTrue(e.getMessage().contains("invalid or repeated"), e.getMessage());
        }
        ControlMessage.AddressAway sound = new ControlMessage.AddressAway("10.20.0.12", "m-1", 60_000, TOKEN);
        assertEquals(sound, ControlMessage.read(sound.frame(ATTEMPT), 0));
    }

    @Test
    void shouldRefuseANameOfUnknownKind() {
        byte[] body = HexFormat.of().parseHex("04" + "05000000" + "09" + "00" + "00".repeat(12) + "00");
        ProtocolException e = assertThrows(ProtocolException.class, () -> decode(body));
        assertTrue(e.getMessage().contains("unknown kind 9"), e.getMessage());
    }

    @Test
    void shouldRefuseAListWithTooLargeACount() {
        for (String count : new String[] {"ffffffff", "ffffff7f", "03000000", "01200000"}) {
            byte[] body = HexFormat.of().parseHex("08" + "00000000" + count + "0100000002000000");
            ProtocolException e = assertThrows(ProtocolException.class, () -> decode(body), count);
            assertTrue(e.getMessage().contains("a list of "), e.getMessage());
        }
    }

    @Test
    void shouldRefuseATextWithTooLargeALength() {
        for (String length : new String[] {"05", "ff7f", "ffffffff7f", "ffffffffffffffff7f", "ffffffffffffffffff"}) {
            byte[] body = HexFormat.of().parseHex("03" + length + "61626364");
            assertThrows(ProtocolException.class, () -> decode(body), length);
        }
    }

    @Test
    void shouldRefuseATextThatIsNotUtf8() {
        for (String text : new String[] {"ff", "c3", "eda080", "f0"}) {
            byte[] body = HexFormat.of().parseHex("03" + String.format("%02x", text.length() / 2) + text);
            ProtocolException e = assertThrows(ProtocolException.class, () -> decode(body), text);
            assertTrue(e.getMessage().contains("not UTF-8"), e.getMessage());
        }
    }

    @Test
    void shouldWriteTextAsUtf8() throws ProtocolException {
        for (String text : new String[] {"", "a\u0000b", "\u00e4\u00f6", "\u65e5\u672c", "\ud83d\ude00"}) {
            Message message = new DataMessage.TransferFailure(text);
            DirectBuffer frame = message.frame(ATTEMPT);
            byte[] utf8 = text.getBytes(StandardCharsets.UTF_8);
            byte[] body = new byte[frame.capacity() - Frame.HEADER_BYTES];
            frame.getBytes(Frame.HEADER_BYTES, body);
            String expected =
                    String.format("0e%02x", utf8.length) + HexFormat.of().formatHex(utf8);
            assertEquals(expected, HexFormat.of().formatHex(body));
            assertEquals(message, ControlMessage.read(frame, 0));
        }
    }

    @Test
    void shouldRefuseToWriteAMessageThatFitsNoFrame() {
        Message message = new DataMessage.TransferFailure("x".repeat(Frame.MAX_FRAME_BYTES));
        IllegalArgumentException e = assertThrows(IllegalArgumentException.class, () -> message.frame(ATTEMPT));
        assertTrue(e.getMessage().contains("does not fit a frame of 65536"), e.getMessage());
    }

    @Test
    void shouldRefuseToWriteAListThatItsReaderRefuses() throws ProtocolException {
        Message most = new ControlMessage.Restored(0, ints(16_366));
        assertEquals(most, ControlMessage.read(most.frame(ATTEMPT), 0));
        Message tooMany = new ControlMessage.Restored(0, ints(16_385));
        IllegalArgumentException e = assertThrows(IllegalArgumentException.class, () -> tooMany.frame(ATTEMPT));
        assertTrue(e.getMessage().contains("16385"), e.getMessage());
    }

    private static List<Integer> ints(int count) {
        return IntStream.range(0, count).boxed().toList();
    }

    private static Message decode(byte[] body) throws ProtocolException {
        UnsafeBuffer frame = new UnsafeBuffer(new byte[Frame.HEADER_BYTES + body.length]);
        Frame.writeHeader(frame, 0, FrameType.MESSAGE, frame.capacity(), ATTEMPT, 0);
        frame.putBytes(Frame.HEADER_BYTES, body);
        return ControlMessage.read(frame, 0);
    }
}
