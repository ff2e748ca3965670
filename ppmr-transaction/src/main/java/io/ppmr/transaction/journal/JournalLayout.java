package io.ppmr.transaction.journal;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.zip.CRC32C;

/**
 * The layout of a journal in its file. Numbers are big-endian; records are aligned to 8 bytes.
 *
 * <pre>
 * file    0  "PPMRJRN"     7  version: "1" or "2" (1)   8  records ... zeros
 * record  0  length of what follows the CRC, without padding; written last, 0 where no record is
 *         4  CRC32C of that
 *         8  type (1)   9  1 if synced (1)   10  time, ms since 1970 (8)   18  body
 * </pre>
 */
final class JournalLayout {
    static final int HEADER_BYTES = 8;
    private static final byte FIRST_VERSION = '1';
    private static final int FRAME_BYTES = 8;
    private static final int PREFIX_BYTES = 10;
    /** The most times that a byte after the end is read in looking for records there. */
    private static final long MOST_LOOKS = 64;

    private JournalLayout() {}

    /**
     * The content of a file.
     *
     * @param entries the whole records, in order
     * @param endOffset where the next one goes
     */
    record Contents(List<TransactionJournal.Entry> entries, long endOffset) {
        Contents {
            entries = List.copyOf(entries);
        }
    }

    /**
     * The header of a file of version 2, the one whose records {@link RecordCodec} writes. Version 1 has no records
     * whose times are of {@link TransactionRecord.RecordedClock#BOOT}; else it is the same.
     */
    static byte[] magic() {
        return "PPMRJRN2".getBytes(StandardCharsets.US_ASCII);
    }

    static byte[] frame(TransactionJournal.Entry entry, boolean synced) {
        RecordCodec.Writer record = RecordCodec.written(entry.record());
        return frame(record.type(), entry.atEpochMs(), record.body(), synced);
    }

    /** The frame of a record of that type with those fields. */
    static byte[] frame(int type, long atEpochMs, byte[] body, boolean synced) {
        int lengthBytes = PREFIX_BYTES + body.length;
        ByteBuffer frame = ByteBuffer.allocate(FRAME_BYTES + (lengthBytes + 7) / 8 * 8);
        frame.putInt(lengthBytes).putInt(0);
        frame.put((byte) type);
        frame.put((byte) (synced ? 1 : 0));
        frame.putLong(atEpochMs).put(body);
        frame.putInt(4, crc(frame.array(), FRAME_BYTES, lengthBytes));
        return frame.array();
    }

    /**
     * Reads a file; one that is being written too: what is half written is not there yet.
     *
     * @throws IOException it cannot be read, is no journal, is damaged, or has a whole record that means nothing
     */
    static Contents read(Path path) throws IOException {
        byte[] bytes = Files.readAllBytes(path);
        requireHeader(path, bytes);
        ByteBuffer file = ByteBuffer.wrap(bytes);
        List<TransactionJournal.Entry> entries = new ArrayList<>();
        int offset = HEADER_BYTES;
        for (; isWhole(file, offset); offset = next(file, offset)) {
            TransactionJournal.Entry entry = entryAt(file, offset);
            if (entry == null) {
                throw new IOException("the journal " + path + " has at byte " + offset + " a whole record that means"
                        + " nothing to this release; nothing is done with it. Look at its copies and at the processes"
                        + " by hand, then move it away");
            }
            entries.add(entry);
        }
        requireNothingSyncedAfter(path, file, offset);
        return new Contents(entries, offset);
    }

    /**
     * Returns true of a file in which nothing but zeros stands. An older release left one where the disk was full at
     * its first start. No record was ever in it, since the header is on the disk before the first one.
     */
    static boolean isUnwritten(Path path) throws IOException {
        for (byte one : Files.readAllBytes(path)) {
            if (one != 0) {
                return false;
            }
        }
        return true;
    }

    private static void requireHeader(Path path, byte[] file) throws IOException {
        byte[] magic = magic();
        int version = HEADER_BYTES - 1;
        if (file.length < HEADER_BYTES || !Arrays.equals(magic, 0, version, file, 0, version)) {
            throw new IOException(path + " is no journal of ppmr; move it away to start anew");
        }
        if (file[version] != magic[version] && file[version] != FIRST_VERSION) {
            throw new IOException("the journal " + path + " is of version '" + (char) file[version]
                    + "', and this release reads versions 1 and 2; start the release that wrote it, or move it away to"
                    + " start anew when none of its migrations is open");
        }
    }

    /** A record that was synced has only whole ones before it: if there is one after the end, the file is damaged. */
    private static void requireNothingSyncedAfter(Path path, ByteBuffer file, int endOffset) throws IOException {
        long checkedBytes = 0;
        for (int offset = endOffset; offset + FRAME_BYTES + PREFIX_BYTES <= file.capacity(); offset += 8) {
            if (file.getInt(offset) == 0 || file.get(offset + 9) != 1) {
                continue;
            }
            checkedBytes += fits(file, offset) ? file.getInt(offset) : 0;
            if (checkedBytes > MOST_LOOKS * file.capacity()) {
                throw new IOException("the journal " + path + " is damaged at byte " + endOffset
                        + ": what follows looks like records wherever one begins to read; nothing is done with it. Look"
                        + " at its copies and at the processes by hand, then move it away to start anew");
            }
            if (isWhole(file, offset)) {
                throw new IOException("the journal " + path + " is damaged at byte " + endOffset
                        + ": whole records follow at byte " + offset + "; nothing is done with it. Look at its copies"
                        + " and at the processes by hand, then move it away to start anew");
            }
        }
    }

    private static int next(ByteBuffer file, int offset) {
        return offset + FRAME_BYTES + (file.getInt(offset) + 7) / 8 * 8;
    }

    /** Returns true if the length fits and the CRC is right: what stands there was written as a record. */
    @SuppressWarnings("ByteBufferBackingArray")
    private static boolean isWhole(ByteBuffer file, int offset) {
        return offset + FRAME_BYTES + PREFIX_BYTES <= file.capacity()
                && fits(file, offset)
                && crc(file.array(), offset + FRAME_BYTES, file.getInt(offset)) == file.getInt(offset + 4);
    }

    /** Returns the whole record that stands there; null if its type or its fields are none. */
    @SuppressWarnings("ByteBufferBackingArray")
    private static TransactionJournal.Entry entryAt(ByteBuffer file, int offset) {
        int bodyOffset = offset + FRAME_BYTES + PREFIX_BYTES;
        byte[] body = Arrays.copyOfRange(file.array(), bodyOffset, offset + FRAME_BYTES + file.getInt(offset));
        TransactionRecord record = RecordCodec.decode(file.get(offset + FRAME_BYTES), body);
        return record == null ? null : new TransactionJournal.Entry(file.getLong(offset + FRAME_BYTES + 2), record);
    }

    private static boolean fits(ByteBuffer file, int offset) {
        int lengthBytes = file.getInt(offset);
        return lengthBytes >= PREFIX_BYTES && lengthBytes <= file.capacity() - offset - FRAME_BYTES;
    }

    private static int crc(byte[] bytes, int offset, int lengthBytes) {
        CRC32C crc = new CRC32C();
        crc.update(bytes, offset, lengthBytes);
        return (int) crc.getValue();
    }
}
