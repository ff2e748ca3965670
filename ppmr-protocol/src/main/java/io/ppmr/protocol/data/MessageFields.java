package io.ppmr.protocol.data;

import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import net.openhft.chronicle.bytes.Bytes;

/**
 * The fields of messages: 32 and 64 bit numbers little-endian, texts as UTF-8 after a stop-bit length, lists after a
 * 32-bit count. Each length is checked against the available bytes before memory is allocated for it.
 */
public final class MessageFields {
    /** Maximum number of entries of a list: the ranks of a migration, and the nodes of a job's ranks. */
    public static final int MAX_LIST_ENTRIES = 16_384;

    /** The longest text, in bytes of UTF-8. */
    private static final int MAX_TEXT_BYTES = Frame.MAX_FRAME_BYTES;

    /**
     * A list of more texts than this needs a minimum average length, since each text takes some fifty bytes more on the
     * heap.
     */
    private static final int FEW_TEXTS = 64;

    /** The minimum average length of a text in a longer list, with its length field. */
    private static final int LEAST_TEXT_BYTES = 4;

    private MessageFields() {}

    public static String text(Bytes<?> in) throws ProtocolException {
        long lengthBytes = in.readRemaining() == 0 ? -1 : in.readStopBit();
        if (lengthBytes < 0 || lengthBytes > in.readRemaining()) {
            throw new ProtocolException("a text is missing in a message: the peer is broken");
        }
        if (lengthBytes > MAX_TEXT_BYTES) {
            throw new ProtocolException("a text of " + lengthBytes + " bytes in a message: the peer is broken");
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

    /** Does not use Bytes.writeUtf8, which writes a character beyond U+FFFF as two. */
    public static void writeText(Bytes<?> out, String text) {
        byte[] utf8 = text.getBytes(StandardCharsets.UTF_8);
        if (utf8.length > MAX_TEXT_BYTES) {
            throw new IllegalArgumentException(
                    "a text of " + utf8.length + " bytes in a message: it can have at most " + MAX_TEXT_BYTES);
        }
        out.writeStopBit(utf8.length).write(utf8);
    }

    /**
     * Reads a text that a later version added at the end of a message. It is empty if the message ends before it.
     *
     * @throws ProtocolException if it is there and empty, which has no meaning
     */
    public static String addedText(Bytes<?> in) throws ProtocolException {
        if (in.readRemaining() == 0) {
            return "";
        }
        String text = text(in);
        if (text.isEmpty()) {
            throw new ProtocolException("an empty text at the end of a message: the peer is broken");
        }
        return text;
    }

    /** Writes a text that a later version added at the end of a message, and nothing for an empty one. */
    public static void writeAddedText(Bytes<?> out, String text) {
        if (!text.isEmpty()) {
            writeText(out, text);
        }
    }

    public static void writeTexts(Bytes<?> out, String... texts) {
        for (String text : texts) {
            writeText(out, text);
        }
    }

    public static List<String> texts(Bytes<?> in) throws ProtocolException {
        int count = count(in, Byte.BYTES);
        if (count > FEW_TEXTS && (long) count * LEAST_TEXT_BYTES > in.readRemaining()) {
            throw new ProtocolException(
                    "a list of " + count + " texts without content in a message: the peer is broken");
        }
        List<String> texts = new ArrayList<>(count);
        for (int i = 0; i < count; i++) {
            texts.add(text(in));
        }
        return texts;
    }

    public static void writeTexts(Bytes<?> out, List<String> texts) {
        writeCount(out, texts.size());
        texts.forEach(text -> writeText(out, text));
    }

    public static List<Integer> ints(Bytes<?> in) throws ProtocolException {
        int count = count(in, Integer.BYTES);
        List<Integer> values = new ArrayList<>(count);
        for (int i = 0; i < count; i++) {
            values.add(in.readInt());
        }
        return values;
    }

    public static void writeInts(Bytes<?> out, List<Integer> values) {
        writeCount(out, values.size());
        values.forEach(out::writeInt);
    }

    public static boolean flag(Bytes<?> in) {
        return in.readByte() != 0;
    }

    public static void writeFlag(Bytes<?> out, boolean flag) {
        out.writeByte((byte) (flag ? 1 : 0));
    }

    /** Reads the count of a list whose entries have at least {@code entryBytes} bytes each. */
    public static int count(Bytes<?> in, int entryBytes) throws ProtocolException {
        int count = in.readInt();
        if (count < 0 || count > MAX_LIST_ENTRIES || (long) count * entryBytes > in.readRemaining()) {
            throw new ProtocolException("a list of " + count + " entries in a message: the peer is broken");
        }
        return count;
    }

    public static void writeCount(Bytes<?> out, int count) {
        if (count > MAX_LIST_ENTRIES) {
            throw new IllegalArgumentException(
                    "a list of " + count + " entries in a message: it can have at most " + MAX_LIST_ENTRIES);
        }
        out.writeInt(count);
    }
}
