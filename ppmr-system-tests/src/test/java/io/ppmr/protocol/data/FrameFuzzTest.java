package io.ppmr.protocol.data;

import io.ppmr.fuzz.Fuzz;
import io.ppmr.fuzz.FuzzPlan;
import io.ppmr.fuzz.Mutator;
import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.protocol.control.Finding;
import io.ppmr.protocol.control.JobFacts;
import io.ppmr.protocol.control.MigrationSecret;
import io.ppmr.protocol.control.NodeFacts;
import io.ppmr.protocol.control.VoterState;
import java.io.EOFException;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Tests what a peer with the key sends on a control connection: any bytes in the place of frames and of messages. */
class FrameFuzzTest {
    private static final int MOST_BYTES = Frame.MAX_FRAME_BYTES + 64;
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

    private static final List<Message> MESSAGES = List.of(
            new ControlMessage.Begin(
                    "m-1",
                    new MigrationSecret(5, 6),
                    "job",
                    "criu",
                    1000,
                    100,
                    List.of(0, 1),
                    new ControlMessage.Begin.TransferPlan(131072, 2, 3, 5),
                    List.of("t:1", "[2001:db8::7]:7411"),
                    1,
                    new ControlMessage.Begin.Placement(List.of(0, 1), List.of("0 u", "1 v")),
                    "01234567-89ab-cdef-0123-456789abcdef"),
            new ControlMessage.Accept(5, 30_000, 10_000, "01234567-89ab-cdef-0123-456789abcdef"),
            new DataMessage.Offer(Optional.of(RdmaMode.WRITE), 4660, "ok"),
            new DataMessage.Writable(6, 5, 4, 3, 64),
            new DataMessage.Attached(true, 6, 5, "ab", "ok"),
            new ControlMessage.Refuse("busy"),
            new DataMessage.Created(5, NodeKind.SYMLINK, "/rank-0/l", 0777, 1000, 100, "to"),
            new DataMessage.Renamed("/a", "/b"),
            new DataMessage.Removed("/a"),
            new DataMessage.Changed("/a", 0600, 1, 2, 3),
            new ControlMessage.Restored(3, List.of(4242, 4243)),
            new ControlMessage.StoppedByJob(3, List.of(7, 8), List.of(-1, 0), List.of(1)),
            new ControlMessage.CarriedFiles(3, List.of("/a", "/b"), List.of(1)),
            new ControlMessage.FilesPlaced(3),
            new ControlMessage.OriginalRights(3, true, List.of("root /", "x")),
            new ControlMessage.Prepared(
                    new TransferReport(1, 2, 3, 4, 5, List.of(new TransferReport.ReadSample(6, 7)))),
            new ControlMessage.Commit("m-1"),
            new ControlMessage.Committed("m-1"),
            new ControlMessage.RollBack("m-1", "no"),
            new ControlMessage.RolledBack("m-1", "no"),
            new DataMessage.TransferFailure("no"),
            new DataMessage.Progress(1, 2, 3),
            new ControlMessage.Confirm("m-1"),
            new ControlMessage.StillHeld("m-1"),
            new ControlMessage.NotHeld("m-1", "no"),
            new ControlMessage.TakeOver("m-1"),
            new ControlMessage.ParticipantStatus("m-1", VoterState.COMMITTED, 5),
            new ControlMessage.Participation("m-1", "t:1", new MigrationSecret(5, 6)),
            new ControlMessage.StatusQuery("m-1", 5, 6),
            new ControlMessage.AddressAway("10.20.0.12", "m-1", 10_000, "a1".repeat(32)),
            new ControlMessage.InspectFiles(5, 6, 's', List.of("/b")),
            new ControlMessage.FilesInspected("k", true, List.of("error 2"), "no"),
            new ControlMessage.AddressAwayAck(2),
            new ControlMessage.Introduce(NODE, new JobFacts("criu", 7, 6, List.of(8))),
            new ControlMessage.Introduced(NODE, MemoryWay.STREAMED, List.of(Finding.fail("cpu", "no", "go"))));

    private static final ControlMessage.Begin LONG = new ControlMessage.Begin(
            "m-1",
            new MigrationSecret(5, 6),
            "job",
            "criu",
            1000,
            100,
            IntStream.range(0, 10_000).boxed().toList(),
            new ControlMessage.Begin.TransferPlan(131072, 2, 3, 0),
            List.of("t:1"),
            0,
            new ControlMessage.Begin.Placement(
                    List.of(0, 1),
                    IntStream.range(0, 10_000)
                            .mapToObj(rank -> rank + " node-" + rank)
                            .toList()),
            "");

    private static final List<DirectBuffer> LONG_FRAMES = LONG.frames(1);

    private final AdvertiseFrame advertise = new AdvertiseFrame();
    private final CreditRequestFrame want = new CreditRequestFrame();
    private final CreditFrame slot = new CreditFrame();
    private final FilePrefixFrame head = new FilePrefixFrame();
    private final ReleaseFrame release = new ReleaseFrame();
    private final ValueFrame value = new ValueFrame();
    /** The sum of all read values. It is not private, so that the compilers do not remove it. */
    long sum;

    private static byte[] bytes(DirectBuffer frame, int length) {
        byte[] bytes = new byte[length];
        frame.getBytes(0, bytes);
        return bytes;
    }

    private static byte[] message(Message message) {
        DirectBuffer frame = message.frame(1);
        return bytes(frame, frame.capacity());
    }

    private static Fuzz frames() {
        UnsafeBuffer out = new UnsafeBuffer(new byte[256]);
        List<byte[]> valid = new ArrayList<>();
        valid.add(bytes(out, AdvertiseFrame.encode(out, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10)));
        valid.add(bytes(out, ChunkFrame.encode(out, 0, 1, 2, 3, 4, 5, 6, 7, 0)));
        valid.add(bytes(out, CreditRequestFrame.encode(out, 0, 1, 2, 3, 4, CreditRequestFrame.BLOCKED)));
        valid.add(bytes(out, CreditFrame.encode(out, 0, FrameType.CREDIT, 1, 2, 3, 4)));
        valid.add(bytes(out, CreditFrame.encode(out, 0, FrameType.CREDIT_RETURN, 1, 2, 3, 4)));
        valid.add(bytes(out, CreditFrame.encode(out, 0, FrameType.CREDIT_DENIAL, 1, 2, 3, 1)));
        valid.add(bytes(out, FilePrefixFrame.encode(out, 0, 1, 2, 0, 20)));
        valid.add(bytes(out, ReleaseFrame.encode(out, 0, 1, 2, 3, 4)));
        for (FrameType type : List.of(
                FrameType.TRUNCATE,
                FrameType.SYNC,
                FrameType.SYNCED,
                FrameType.END_OF_FILE,
                FrameType.END_OF_IMAGE,
                FrameType.HEARTBEAT)) {
            valid.add(bytes(out, ValueFrame.encode(out, 0, type, 1, 2, 3)));
        }
        valid.add(message(MESSAGES.get(0)));
        // An incomplete frame is no refusal.
        return new Fuzz(
                FuzzPlan.FRAMES, new Mutator(valid, 4096), List.of(ProtocolException.class, EOFException.class));
    }

    private static Fuzz messages() {
        Mutator mutator =
                new Mutator(MESSAGES.stream().map(FrameFuzzTest::message).toList(), MOST_BYTES);
        return new Fuzz(FuzzPlan.MESSAGES, mutator, List.of(ProtocolException.class))
                .repairedBy(FrameFuzzTest::withHeader)
                .allocatesAtMost(64 * 1024, 512);
    }

    /** The header as it must be for the bytes behind it. */
    private static byte[] withHeader(byte[] input) {
        if (input.length <= Frame.HEADER_BYTES || input.length > Frame.MAX_FRAME_BYTES) {
            return input;
        }
        Frame.writeHeader(new UnsafeBuffer(input), 0, FrameType.MESSAGE, input.length, 1, 0);
        return input;
    }

    /**
     * Frames of a long message, each by four bytes of the input. They are its type, its length, the offset of its bytes
     * in a Begin of ten thousand ranks, and one bit that is changed. Whole frames as inputs would be too many bytes to
     * try many.
     */
    private static Fuzz parts() {
        List<DirectBuffer> frames = LONG_FRAMES;
        byte[] whole = new byte[frames.size() * 4];
        for (int i = 0; i < frames.size(); i++) {
            whole[4 * i] = (byte) (i + 1 < frames.size() ? 0 : 1);
            whole[4 * i + 2] = (byte) i;
            whole[4 * i + 3] = -1;
        }
        return new Fuzz(FuzzPlan.MESSAGE_PARTS, new Mutator(List.of(whole), 4 * 64), List.of(ProtocolException.class))
                // The input represents more bytes. Four bytes are a frame of 64 KiB, whose places and names become
                // objects of some dozen times that size, message after message.
                .allocatesAtMost(16 << 20, 12 * Frame.MAX_FRAME_BYTES);
    }

    private void readParts(byte[] input) throws ProtocolException {
        List<DirectBuffer> frames = LONG_FRAMES;
        MessageParts parts = new MessageParts(MessageParts.ReassemblyBudget.forOneConnection());
        for (int at = 0; at + 4 <= input.length; at += 4) {
            DirectBuffer from = frames.get((input[at + 2] & 0xFF) % frames.size());
            int shorter = (input[at + 1] & 0xFF) * 257;
            int length = Math.max(Frame.HEADER_BYTES + 1, from.capacity() - shorter);
            UnsafeBuffer frame = new UnsafeBuffer(bytes(from, length));
            FrameType type = List.of(FrameType.MESSAGE_PART, FrameType.MESSAGE_END, FrameType.MESSAGE)
                    .get((input[at] & 0xFF) % 3);
            Frame.writeHeader(frame, 0, type, length, 1, 0);
            if (input[at + 3] != -1) {
                int changed = Frame.HEADER_BYTES + (input[at + 3] & 0xFF) % (length - Frame.HEADER_BYTES);
                frame.putByte(changed, (byte) (frame.getByte(changed) ^ 1 << (input[at + 1] & 7)));
            }
            Frame.requireValid(frame, 0);
            Message message = MessageParts.isPart(type)
                    ? parts.add(type, frame, 0, ControlMessage::read)
                    : ControlMessage.read(frame, 0);
            sum += message == null ? 0 : message.hashCode();
        }
    }

    /** Reads as ControlLink reads its received bytes. */
    private void readFrames(byte[] input) throws Exception {
        UnsafeBuffer in = new UnsafeBuffer(input);
        MessageParts parts = new MessageParts(MessageParts.ReassemblyBudget.forOneConnection());
        int offset = 0;
        while (input.length - offset >= Frame.HEADER_BYTES) {
            FrameType type = Frame.requireValid(in, offset);
            int length = Frame.lengthBytes(in, offset);
            if (input.length - offset < length) {
                throw new EOFException("the rest has not come");
            }
            if (MessageParts.isPart(type)) {
                Message whole = parts.add(type, in, offset, ControlMessage::read);
                sum += whole == null ? 0 : whole.hashCode();
            } else {
                readFrame(type, in, offset);
            }
            offset += length;
        }
    }

    private void readFrame(FrameType type, DirectBuffer in, int offset) throws ProtocolException {
        switch (type) {
            case ADVERTISE -> {
                advertise.wrap(in, offset);
                sum += advertise.offset() + advertise.order() + advertise.address() + advertise.key();
                sum += advertise.lengthBytes() + advertise.crc32c() + advertise.sourceChunk() + advertise.slot();
            }
            case CREDIT_REQUEST -> sum += want.wrap(in, offset).window() + want.count() + want.flags();
            case CREDIT_RETURN, CREDIT, CREDIT_DENIAL ->
                sum += slot.wrap(in, offset).window() + slot.slot();
            case FILE_PREFIX -> {
                if (head.wrap(in, offset).isConsistent()) {
                    for (int i = 0; i < head.dataLengthBytes(); i++) {
                        sum += in.getByte(offset + FilePrefixFrame.DATA_OFFSET + i);
                    }
                }
            }
            case RELEASE -> sum += release.wrap(in, offset).order() + release.sourceChunk();
            case MESSAGE -> sum += ControlMessage.read(in, offset).hashCode();
            default -> sum += value.wrap(in, offset).value();
        }
    }

    private void readMessage(byte[] input) throws ProtocolException {
        UnsafeBuffer in = new UnsafeBuffer(input);
        if (input.length < Frame.HEADER_BYTES
                || Frame.requireValid(in, 0) != FrameType.MESSAGE
                || in.getInt(0, ByteOrder.LITTLE_ENDIAN) != input.length) {
            throw new ProtocolException("no whole message comes to the codec");
        }
        sum += ControlMessage.read(in, 0).hashCode();
    }

    @Test
    void shouldTakeOrRefuseByNameWhateverComesAsFrames() throws Exception {
        frames().inTheGate(this::readFrames);
    }

    @Test
    void shouldTakeOrRefuseByNameWhateverComesAsAMessage() throws Exception {
        messages().inTheGate(this::readMessage);
    }

    @Test
    void shouldTakeOrRefuseByNameWhateverComesAsPartsOfAMessage() throws Exception {
        parts().inTheGate(this::readParts);
    }

    @Tag("soak")
    @Test
    @Timeout(value = 30, unit = TimeUnit.MINUTES)
    void shouldTakeOrRefuseByNameForLongWhateverComesAsPartsOfAMessage() throws Exception {
        parts().forLong(this::readParts);
    }

    @Tag("soak")
    @Test
    @Timeout(value = 30, unit = TimeUnit.MINUTES)
    void shouldTakeOrRefuseByNameForLongWhateverComesAsFrames() throws Exception {
        frames().forLong(this::readFrames);
    }

    @Tag("soak")
    @Test
    @Timeout(value = 30, unit = TimeUnit.MINUTES)
    void shouldTakeOrRefuseByNameForLongWhateverComesAsAMessage() throws Exception {
        messages().forLong(this::readMessage);
    }
}
