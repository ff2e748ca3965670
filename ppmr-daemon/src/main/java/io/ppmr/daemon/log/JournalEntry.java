package io.ppmr.daemon.log;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;

/**
 * One entry in the journal's own form (systemd.io/JOURNAL_NATIVE_PROTOCOL): a field a line as NAME=value, and one with
 * line ends as its name, its length in eight bytes, and the value. For one thread.
 */
final class JournalEntry {
    /** A datagram holds this and the other fields; what a message has beyond it is left out, and the entry says so. */
    static final int MAX_VALUE_BYTES = 96 * 1024;

    private final ByteArrayOutputStream bytes = new ByteArrayOutputStream(512);

    JournalEntry add(String name, String value) {
        byte[] text = shortened(value);
        bytes.writeBytes(name.getBytes(StandardCharsets.US_ASCII));
        if (value.indexOf('\n') < 0) {
            bytes.write('=');
        } else {
            bytes.write('\n');
            bytes.writeBytes(ByteBuffer.allocate(Long.BYTES)
                    .order(ByteOrder.LITTLE_ENDIAN)
                    .putLong(text.length)
                    .array());
        }
        bytes.writeBytes(text);
        bytes.write('\n');
        return this;
    }

    private static byte[] shortened(String value) {
        byte[] text = value.getBytes(StandardCharsets.UTF_8);
        if (text.length <= MAX_VALUE_BYTES) {
            return text;
        }
        String kept = new String(text, 0, MAX_VALUE_BYTES, StandardCharsets.UTF_8);
        return (kept + " ... (" + (text.length - MAX_VALUE_BYTES) + " bytes left out)")
                .getBytes(StandardCharsets.UTF_8);
    }

    byte[] datagram() {
        return bytes.toByteArray();
    }
}
