package io.ppmr.transaction.journal;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
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

    /** Takes the whole records of a file, in order. */
    @FunctionalInterface
    interface EntryVisitor {
        /**
         * Takes one.
         *
         * @param offset where it begins
         */
        void visit(TransactionJournal.JournalEntry entry, int offset) throws IOException;
    }

    /**
     * The header of a file of version 2, the one whose records {@link RecordCodec} writes. Version 1 has no records
     * whose times are of {@link TransactionRecord.RecordedClock#BOOT}; else it is the same.
     */
    static byte[] magic() {
        return "PPMRJRN2".getBytes(StandardCharsets.US_ASCII);
    }

    static byte[] frame(TransactionJournal.JournalEntry entry, boolean synced) {
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
        frame.putInt(4, crc(frame.slice(FRAME_BYTES, lengthBytes)));
        return frame.array();
    }

    /**
     * Gives the records of a file, one after the other, and keeps none; also of one that is being written, where what
     * is half written is not there yet.
     *
     * @return where the next record goes
     * @throws IOException it cannot be read, is no journal, is damaged, or has a whole record that means nothing
     */
    static int scan(Path path, EntryVisitor visitor) throws IOException {
        ByteBuffer file = map(path);
        requireHeader(path, file);
        int offset = HEADER_BYTES;
        for (; isWhole(file, offset); offset = next(file, offset)) {
            TransactionJournal.JournalEntry entry = entryAt(file, offset);
            if (entry == null) {
                throw new IOException("the journal " + path + " has at byte " + offset + " a whole record that means"
                        + " nothing to this release; nothing is done with it. Look at its copies and at the processes"
                        + " by hand, then move it away");
            }
            visitor.visit(entry, offset);
        }
        requireNothingSyncedAfter(path, file, offset);
        return offset;
    }

    /** Gives those records before an offset that this service has read or written: they are whole. */
    static void each(ByteBuffer file, int endOffset, EntryVisitor visitor) throws IOException {
        for (int offset = HEADER_BYTES; offset < endOffset; offset = next(file, offset)) {
            visitor.visit(entryAt(file, offset), offset);
        }
    }

    /** Gives those of one migration; nothing is made of the others. */
    static List<TransactionRecord> of(ByteBuffer file, int endOffset, String migrationId) {
        ByteBuffer wanted = ByteBuffer.wrap(migrationId.getBytes(StandardCharsets.UTF_8));
        List<TransactionRecord> records = new ArrayList<>();
        for (int offset = HEADER_BYTES; offset < endOffset; offset = next(file, offset)) {
            int idOffset = offset + FRAME_BYTES + PREFIX_BYTES + Integer.BYTES;
            boolean fits = file.getInt(idOffset - Integer.BYTES) == wanted.remaining();
            if (fits && file.slice(idOffset, wanted.remaining()).equals(wanted)) {
                records.add(entryAt(file, offset).record());
            }
        }
        return records;
    }

    /** A file as it is, without a copy of it. */
    static ByteBuffer map(Path path) throws IOException {
        try (FileChannel channel = FileChannel.open(path, StandardOpenOption.READ)) {
            return channel.map(FileChannel.MapMode.READ_ONLY, 0, channel.size());
        }
    }

    /**
     * Returns true of a file in which nothing but zeros stands. An older release left one where the disk was full at
     * its first start. No record was ever in it, since the header is on the disk before the first one.
     */
    static boolean isUnwritten(Path path) throws IOException {
        ByteBuffer file = map(path);
        while (file.hasRemaining()) {
            if (file.get() != 0) {
                return false;
            }
        }
        return true;
    }

    private static void requireHeader(Path path, ByteBuffer whole) throws IOException {
        byte[] magic = magic();
        int version = HEADER_BYTES - 1;
        byte[] file = new byte[Math.min(HEADER_BYTES, whole.capacity())];
        whole.get(0, file);
        if (file.length < HEADER_BYTES || !Arrays.equals(magic, 0, version, file, 0, version)) {
            throw new IOException(path + " is no journal of ppmr; move it away to start again");
        }
        if (file[version] != magic[version] && file[version] != FIRST_VERSION) {
            throw new IOException("the journal " + path + " is of version '" + (char) file[version]
                    + "', and this release reads versions 1 and 2; start the release that wrote it, or move it away to"
                    + " start again when none of its migrations is open");
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
                        + " at its copies and at the processes by hand, then move it away to start again");
            }
            if (isWhole(file, offset)) {
                throw new IOException("the journal " + path + " is damaged at byte " + endOffset
                        + ": whole records follow at byte " + offset + "; nothing is done with it. Look at its copies"
                        + " and at the processes by hand, then move it away to start again");
            }
        }
    }

    private static int next(ByteBuffer file, int offset) {
        return offset + FRAME_BYTES + (file.getInt(offset) + 7) / 8 * 8;
    }

    /** Returns true if the length fits and the CRC is right: what stands there was written as a record. */
    private static boolean isWhole(ByteBuffer file, int offset) {
        return offset + FRAME_BYTES + PREFIX_BYTES <= file.capacity()
                && fits(file, offset)
                && crc(file.slice(offset + FRAME_BYTES, file.getInt(offset))) == file.getInt(offset + 4);
    }

    /** Returns the whole record that stands there; null if its type or its fields are none. */
    private static TransactionJournal.JournalEntry entryAt(ByteBuffer file, int offset) {
        byte[] body = new byte[file.getInt(offset) - PREFIX_BYTES];
        file.get(offset + FRAME_BYTES + PREFIX_BYTES, body);
        TransactionRecord record = RecordCodec.decode(file.get(offset + FRAME_BYTES), body);
        return record == null
                ? null
                : new TransactionJournal.JournalEntry(file.getLong(offset + FRAME_BYTES + 2), record);
    }

    private static boolean fits(ByteBuffer file, int offset) {
        int lengthBytes = file.getInt(offset);
        return lengthBytes >= PREFIX_BYTES && lengthBytes <= file.capacity() - offset - FRAME_BYTES;
    }

    private static int crc(ByteBuffer bytes) {
        CRC32C crc = new CRC32C();
        crc.update(bytes);
        return (int) crc.getValue();
    }
}
