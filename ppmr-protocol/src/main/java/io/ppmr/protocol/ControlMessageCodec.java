package io.ppmr.protocol;

import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import net.openhft.chronicle.bytes.Bytes;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;

/**
 * Writes and reads {@link ControlMessage}s. A MESSAGE frame is the {@link Frame} header, one byte that names the
 * message, and its fields in the order of the record: 32 and 64 bit numbers little-endian, text as UTF-8 behind a
 * stop-bit length, lists behind a 32-bit count.
 *
 * <p>For cold frames only: each call allocates. Safe for any thread.
 */
public final class ControlMessageCodec {
    private static final int MAX_LIST_ENTRIES = 8192;

    private ControlMessageCodec() {}

    /** A whole frame with the message in it. */
    public static DirectBuffer encode(int attempt, ControlMessage message) {
        Bytes<byte[]> body = Bytes.allocateElasticOnHeap(256);
        writeBody(body, message);
        byte[] bytes = body.toByteArray();
        int lengthBytes = Frame.HEADER_BYTES + bytes.length;
        if (lengthBytes > Frame.MAX_FRAME_BYTES) {
            throw new IllegalArgumentException(message.getClass().getSimpleName() + " of " + lengthBytes
                    + " bytes does not fit a frame of " + Frame.MAX_FRAME_BYTES);
        }
        UnsafeBuffer frame = new UnsafeBuffer(new byte[lengthBytes]);
        Frame.writeHeader(frame, 0, FrameType.MESSAGE, lengthBytes, attempt, 0);
        frame.putBytes(Frame.HEADER_BYTES, bytes);
        return frame;
    }

    /** The message in a frame whose header is valid. */
    public static ControlMessage decode(DirectBuffer frame, int offset) throws ProtocolException {
        byte[] bytes = new byte[Frame.lengthBytes(frame, offset) - Frame.HEADER_BYTES];
        frame.getBytes(offset + Frame.HEADER_BYTES, bytes);
        Bytes<byte[]> body = Bytes.wrapForRead(bytes);
        try {
            ControlMessage message = readBody(body);
            if (body.readRemaining() != 0) {
                throw new ProtocolException(message.getClass().getSimpleName() + " with " + body.readRemaining()
                        + " bytes too many: the peer is broken");
            }
            return message;
        } catch (RuntimeException e) {
            throw new ProtocolException("a message that cannot be read: the peer is broken (" + e + ")", e);
        }
    }

    private static void writeBody(Bytes<?> out, ControlMessage message) {
        if (message instanceof ControlMessage.Begin m) {
            out.writeByte((byte) 1);
            writeTexts(out, m.migrationId(), m.job(), m.checkpointer());
            out.writeInt(m.chunkBytes())
                    .writeInt(m.dataConnections())
                    .writeInt(m.uid())
                    .writeInt(m.gid());
            writeInts(out, m.ranks());
            writeCount(out, m.participants().size());
            writeTexts(out, m.participants().toArray(String[]::new));
            out.writeInt(m.place());
            out.writeInt(m.transports());
            writeInts(out, m.moving());
            writeCount(out, m.places().size());
            writeTexts(out, m.places().toArray(String[]::new));
        } else if (message instanceof ControlMessage.Accept m) {
            out.writeByte((byte) 2)
                    .writeLong(m.clockNs())
                    .writeLong(m.fenceWindowMs())
                    .writeLong(m.silenceLimitMs());
        } else if (message instanceof ControlMessage.Refuse m) {
            out.writeByte((byte) 3);
            writeText(out, m.reason());
        } else if (message instanceof ControlMessage.Created m) {
            out.writeByte((byte) 4).writeInt(m.file()).writeByte((byte) m.kind().code());
            writeText(out, m.path());
            out.writeInt(m.mode()).writeInt(m.uid()).writeInt(m.gid());
            writeText(out, m.linkTarget());
        } else if (message instanceof ControlMessage.Renamed m) {
            out.writeByte((byte) 5);
            writeTexts(out, m.from(), m.to());
        } else if (message instanceof ControlMessage.Removed m) {
            out.writeByte((byte) 6);
            writeText(out, m.path());
        } else if (message instanceof ControlMessage.Changed m) {
            out.writeByte((byte) 7);
            writeText(out, m.path());
            out.writeInt(m.mode()).writeInt(m.uid()).writeInt(m.gid()).writeLong(m.modifiedEpochNs());
        } else {
            writeStep(out, message);
        }
    }

    /** Those of the steps of a migration, after its beginning. */
    private static void writeStep(Bytes<?> out, ControlMessage message) {
        if (message instanceof ControlMessage.Restored m) {
            out.writeByte((byte) 8).writeInt(m.rank());
            writeInts(out, m.pids());
        } else if (message instanceof ControlMessage.Prepared m) {
            out.writeByte((byte) 9);
            writeReport(out, m.report());
        } else if (message instanceof ControlMessage.Commit m) {
            out.writeByte((byte) 10);
            writeText(out, m.migrationId());
        } else if (message instanceof ControlMessage.Committed m) {
            out.writeByte((byte) 11);
            writeText(out, m.migrationId());
        } else if (message instanceof ControlMessage.RollBack m) {
            out.writeByte((byte) 12);
            writeTexts(out, m.migrationId(), m.reason());
        } else if (message instanceof ControlMessage.RolledBack m) {
            out.writeByte((byte) 13);
            writeTexts(out, m.migrationId(), m.reason());
        } else if (message instanceof ControlMessage.Failed m) {
            out.writeByte((byte) 14);
            writeText(out, m.reason());
        } else if (message instanceof ControlMessage.Progress m) {
            out.writeByte((byte) 15).writeLong(m.arrivedBytes()).writeLong(m.readBytes());
            out.writeLong(m.stagedBytes());
        } else if (message instanceof ControlMessage.Confirm m) {
            out.writeByte((byte) 16);
            writeText(out, m.migrationId());
        } else if (message instanceof ControlMessage.StillHeld m) {
            out.writeByte((byte) 17);
            writeText(out, m.migrationId());
        } else if (message instanceof ControlMessage.NotHeld m) {
            out.writeByte((byte) 18);
            writeTexts(out, m.migrationId(), m.reason());
        } else if (message instanceof ControlMessage.TakeOver m) {
            out.writeByte((byte) 19);
            writeText(out, m.migrationId());
        } else if (message instanceof ControlMessage.Standing m) {
            out.writeByte((byte) 20);
            writeText(out, m.migrationId());
            out.writeByte((byte) m.state().code()).writeLong(m.round());
        } else if (message instanceof ControlMessage.Peer m) {
            out.writeByte((byte) 22);
            writeTexts(out, m.migrationId(), m.participant());
        } else if (message instanceof ControlMessage.Stopped m) {
            out.writeByte((byte) 23).writeInt(m.rank());
            writeInts(out, m.pids());
            writeInts(out, m.parents());
            writeInts(out, m.stopped());
        } else if (message instanceof ControlMessage.Originals m) {
            out.writeByte((byte) 24).writeInt(m.rank()).writeByte((byte) (m.last() ? 1 : 0));
            writeCount(out, m.lines().size());
            writeTexts(out, m.lines().toArray(String[]::new));
        } else if (message instanceof ControlMessage.Ask m) {
            out.writeByte((byte) 21);
            writeText(out, m.migrationId());
            out.writeLong(m.round()).writeLong(m.promiseMs());
        } else {
            writeArrangement(out, message);
        }
    }

    /** Those by which two nodes find out whether, and how, they can work together. */
    private static void writeArrangement(Bytes<?> out, ControlMessage message) {
        if (message instanceof ControlMessage.Offer m) {
            out.writeByte((byte) 40).writeByte((byte) (m.direct() ? 1 : 0)).writeInt(m.port());
            writeText(out, m.reason());
        } else if (message instanceof ControlMessage.Attached m) {
            out.writeByte((byte) 41).writeByte((byte) (m.direct() ? 1 : 0));
            out.writeLong(m.address()).writeLong(m.key());
            writeTexts(out, m.digest(), m.reason());
        } else if (message instanceof ControlMessage.Introduce m) {
            out.writeByte((byte) 32);
            FactsCodec.write(out, m.node());
            FactsCodec.write(out, m.job());
        } else if (message instanceof ControlMessage.Introduced m) {
            out.writeByte((byte) 33);
            FactsCodec.write(out, m.node());
            FactsCodec.write(out, m.findings());
        } else {
            throw new IllegalArgumentException("no code for " + message);
        }
    }

    private static ControlMessage readBody(Bytes<?> in) throws ProtocolException {
        int code = in.readUnsignedByte();
        return switch (code) {
            case 1 ->
                new ControlMessage.Begin(
                        text(in),
                        text(in),
                        text(in),
                        in.readInt(),
                        in.readInt(),
                        in.readInt(),
                        in.readInt(),
                        readInts(in),
                        readTexts(in),
                        in.readInt(),
                        in.readInt(),
                        readInts(in),
                        readTexts(in));
            case 2 -> new ControlMessage.Accept(in.readLong(), in.readLong(), in.readLong());
            case 3 -> new ControlMessage.Refuse(text(in));
            case 4 ->
                new ControlMessage.Created(
                        in.readInt(),
                        NodeKind.of(in.readUnsignedByte()),
                        text(in),
                        in.readInt(),
                        in.readInt(),
                        in.readInt(),
                        text(in));
            case 5 -> new ControlMessage.Renamed(text(in), text(in));
            case 6 -> new ControlMessage.Removed(text(in));
            case 7 -> new ControlMessage.Changed(text(in), in.readInt(), in.readInt(), in.readInt(), in.readLong());
            case 8 -> new ControlMessage.Restored(in.readInt(), readInts(in));
            case 9 -> new ControlMessage.Prepared(readReport(in));
            case 10 -> new ControlMessage.Commit(text(in));
            case 11 -> new ControlMessage.Committed(text(in));
            case 12 -> new ControlMessage.RollBack(text(in), text(in));
            case 13 -> new ControlMessage.RolledBack(text(in), text(in));
            case 14 -> new ControlMessage.Failed(text(in));
            case 15 -> new ControlMessage.Progress(in.readLong(), in.readLong(), in.readLong());
            case 16 -> new ControlMessage.Confirm(text(in));
            case 17 -> new ControlMessage.StillHeld(text(in));
            case 18 -> new ControlMessage.NotHeld(text(in), text(in));
            case 19 -> new ControlMessage.TakeOver(text(in));
            case 20 -> new ControlMessage.Standing(text(in), VoterState.of(in.readUnsignedByte()), in.readLong());
            case 22 -> new ControlMessage.Peer(text(in), text(in));
            case 23 -> new ControlMessage.Stopped(in.readInt(), readInts(in), readInts(in), readInts(in));
            case 24 -> new ControlMessage.Originals(in.readInt(), in.readByte() != 0, readTexts(in));
            case 21 -> new ControlMessage.Ask(text(in), in.readLong(), in.readLong());
            case 40 -> new ControlMessage.Offer(in.readByte() != 0, in.readInt(), text(in));
            case 41 ->
                new ControlMessage.Attached(in.readByte() != 0, in.readLong(), in.readLong(), text(in), text(in));
            case 32 -> new ControlMessage.Introduce(FactsCodec.readNode(in), FactsCodec.readJob(in));
            case 33 -> new ControlMessage.Introduced(FactsCodec.readNode(in), FactsCodec.readFindings(in));
            default -> throw new ProtocolException("message of unknown code " + code + ": the peer is broken");
        };
    }

    static String text(Bytes<?> in) throws ProtocolException {
        long lengthBytes = in.readRemaining() == 0 ? -1 : in.readStopBit();
        if (lengthBytes < 0 || lengthBytes > in.readRemaining()) {
            throw new ProtocolException("a message without a text that it must have: the peer is broken");
        }
        byte[] utf8 = new byte[(int) lengthBytes];
        in.read(utf8);
        try {
            return StandardCharsets.UTF_8
                    .newDecoder()
                    .decode(ByteBuffer.wrap(utf8))
                    .toString();
        } catch (CharacterCodingException e) {
            throw new ProtocolException("a text that is not UTF-8 in a message: the peer is broken", e);
        }
    }

    /** Not Bytes.writeUtf8, which writes a character beyond U+FFFF as two. */
    static void writeText(Bytes<?> out, String text) {
        byte[] utf8 = text.getBytes(StandardCharsets.UTF_8);
        out.writeStopBit(utf8.length).write(utf8);
    }

    static void writeTexts(Bytes<?> out, String... texts) {
        for (String text : texts) {
            writeText(out, text);
        }
    }

    private static List<String> readTexts(Bytes<?> in) throws ProtocolException {
        int count = readCount(in, Byte.BYTES);
        List<String> texts = new ArrayList<>(count);
        for (int i = 0; i < count; i++) {
            texts.add(text(in));
        }
        return texts;
    }

    static void writeInts(Bytes<?> out, List<Integer> values) {
        writeCount(out, values.size());
        values.forEach(out::writeInt);
    }

    static List<Integer> readInts(Bytes<?> in) throws ProtocolException {
        int count = readCount(in, Integer.BYTES);
        List<Integer> values = new ArrayList<>(count);
        for (int i = 0; i < count; i++) {
            values.add(in.readInt());
        }
        return values;
    }

    static void writeCount(Bytes<?> out, int count) {
        if (count > MAX_LIST_ENTRIES) {
            throw new IllegalArgumentException(
                    "a list of " + count + " entries in a message: it can have at most " + MAX_LIST_ENTRIES);
        }
        out.writeInt(count);
    }

    static int readCount(Bytes<?> in, int entryBytes) throws ProtocolException {
        int count = in.readInt();
        if (count < 0 || count > MAX_LIST_ENTRIES || (long) count * entryBytes > in.readRemaining()) {
            throw new ProtocolException("a list of " + count + " entries in a message: the peer is broken");
        }
        return count;
    }

    private static void writeReport(Bytes<?> out, TransferReport report) {
        out.writeLong(report.arrivedBytes()).writeLong(report.readBytes()).writeLong(report.stagedBytes());
        out.writeLong(report.peakResidentBytes()).writeLong(report.firstReadNs());
        writeCount(out, report.samples().size());
        report.samples().forEach(sample -> out.writeLong(sample.timeNs()).writeLong(sample.readBytes()));
    }

    private static TransferReport readReport(Bytes<?> in) throws ProtocolException {
        long arrived = in.readLong();
        long read = in.readLong();
        long staged = in.readLong();
        long peakResident = in.readLong();
        long firstRead = in.readLong();
        int count = readCount(in, 2 * Long.BYTES);
        List<TransferReport.ReadSample> samples = new ArrayList<>(count);
        for (int i = 0; i < count; i++) {
            samples.add(new TransferReport.ReadSample(in.readLong(), in.readLong()));
        }
        return new TransferReport(arrived, read, staged, peakResident, firstRead, samples);
    }
}
