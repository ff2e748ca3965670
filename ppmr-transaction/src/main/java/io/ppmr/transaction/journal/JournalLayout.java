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
 * The layout of a journal in its file. Numbers are big-endian. Records are aligned to 8 bytes.
 *
 * <pre>
 * file    0  "PPMRJRN"     7  version: "1" to "3" (1)   8  records ... zeros
 * record  0  length of the bytes after the CRC, without padding; written last, 0 if there is no record
 *         4  CRC32C of these bytes
 *         8  type (1)   9  1 if synced (1)   10  time, ms since 1970 (8)   18  body
 * </pre>
 */
final class JournalLayout {
    static final int HEADER_BYTES = 8;
    private static final int FRAME_BYTES = 8;
    private static final int PREFIX_BYTES = 10;
    /** Maximum number of reads for each byte behind the end, in the search for further records. */
    private static final long MOST_LOOKS = 64;

    private JournalLayout() {}

    /** Accepts the whole records of a file, in order. */
    @FunctionalInterface
    interface EntryVisitor {
        /**
         * Accepts one record.
         *
         * @param offset start of the record
         */
        void visit(TransactionJournal.JournalEntry entry, int offset) throws IOException;
    }

    /**
     * Returns the header of version 3, whose records {@link RecordCodec} writes. Version 2 has no {@link
     * TransactionRecord.PeerNode}, and version 1 no records with times of {@link TransactionRecord.RecordedClock#BOOT}.
     * Otherwise they are equal.
     */
    static byte[] magic() {
        return ("PPMRJRN" + MappedJournal.VERSION).getBytes(StandardCharsets.US_ASCII);
    }

    static byte[] frame(TransactionJournal.JournalEntry entry, boolean synced) {
        RecordCodec.Writer record = RecordCodec.written(entry.record());
        return frame(record.type(), entry.atEpochMs(), record.body(), synced);
    }

    /** Returns the frame of a record with this type and these fields. */
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
     * Passes the records of a file one by one, and keeps none. The file may be in use. Then a half-written record
     * counts as absent.
     *
     * @return the offset of the next record
     * @throws IOException if the file cannot be read, is no journal, is damaged, or has a whole record without a
     *     meaning
     */
    static int scan(Path path, EntryVisitor visitor) throws IOException {
        ByteBuffer file = map(path);
        requireHeader(path, file);
        int offset = HEADER_BYTES;
        for (; isWhole(file, offset); offset = next(file, offset)) {
            TransactionJournal.JournalEntry entry = entryAt(file, offset);
            if (entry == null) {
                throw new IOException("the journal " + path + " has at byte " + offset + " a whole record that this"
                        + " release cannot read. Nothing was changed. Check its migrations' copies and"
                        + " processes by hand, then move the journal away");
            }
            visitor.visit(entry, offset);
        }
        requireNothingSyncedAfter(path, file, offset);
        return offset;
    }

    /** Passes the records before an offset. This service has read or written them, so they are whole. */
    static void forEach(ByteBuffer file, int endOffset, EntryVisitor visitor) throws IOException {
        for (int offset = HEADER_BYTES; offset < endOffset; offset = next(file, offset)) {
            visitor.visit(entryAt(file, offset), offset);
        }
    }

    /** Returns the records of one migration. The others are not decoded. */
    static List<TransactionRecord> recordsOf(ByteBuffer file, int endOffset, String migrationId) {
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

    /** Maps a file without copying it. */
    static ByteBuffer map(Path path) throws IOException {
        try (FileChannel channel = FileChannel.open(path, StandardOpenOption.READ)) {
            return channel.map(FileChannel.MapMode.READ_ONLY, 0, channel.size());
        }
    }

    /**
     * Returns true if a file contains only zeros. An older release left such a file if the disk was full at its first
     * start. No record was ever in it, because the header is on the disk before the first record.
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
            throw new IOException(path + " is no journal of ppmr; move it away to start with a new one");
        }
        int number = file[version] - '0';
        if (number < MappedJournal.OLDEST_VERSION || number > MappedJournal.VERSION) {
            throw new IOException("the journal " + path + " is of version '" + (char) file[version]
                    + "', and this release reads versions " + MappedJournal.OLDEST_VERSION + " to "
                    + MappedJournal.VERSION
                    + "; start the release that wrote it, or move it away to"
                    + " start again when none of its migrations is open");
        }
    }

    /**
     * Throws if a whole record follows the end. A synced record has only whole ones before it, so the file is damaged.
     */
    private static void requireNothingSyncedAfter(Path path, ByteBuffer file, int endOffset) throws IOException {
        long checkedBytes = 0;
        for (int offset = endOffset; offset + FRAME_BYTES + PREFIX_BYTES <= file.capacity(); offset += 8) {
            if (file.getInt(offset) == 0 || file.get(offset + 9) != 1) {
                continue;
            }
            checkedBytes += fits(file, offset) ? file.getInt(offset) : 0;
            if (checkedBytes > MOST_LOOKS * file.capacity()) {
                throw new IOException("the journal " + path + " is damaged at byte " + endOffset
                        + ": the bytes behind it look like records at every offset. Nothing was changed. Check its"
                        + " migrations' copies and processes by hand, then move the journal away");
            }
            if (isWhole(file, offset)) {
                throw new IOException("the journal " + path + " is damaged at byte " + endOffset
                        + ": whole records follow at byte " + offset + ". Nothing was changed. Check its migrations'"
                        + " copies and processes by hand, then move the journal away");
            }
        }
    }

    private static int next(ByteBuffer file, int offset) {
        return offset + FRAME_BYTES + (file.getInt(offset) + 7) / 8 * 8;
    }

    /** Returns true if the length fits and the CRC is right. Then the bytes were written as a record. */
    private static boolean isWhole(ByteBuffer file, int offset) {
        return offset + FRAME_BYTES + PREFIX_BYTES <= file.capacity()
                && fits(file, offset)
                && crc(file.slice(offset + FRAME_BYTES, file.getInt(offset))) == file.getInt(offset + 4);
    }

    /** Returns the whole record at this offset, or null if its type or its fields are invalid. */
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
