package io.ppmr.transaction.journal;

import io.ppmr.fuzz.Fuzz;
import io.ppmr.fuzz.FuzzPlan;
import io.ppmr.fuzz.Mutator;
import io.ppmr.linux.ProcessIdentity;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Clock;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.zip.CRC32C;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** A journal that is damaged, or no journal. A record is one byte for its type, and its body. */
class JournalFuzzTest {
    private static final List<PlannedRank> RANKS =
            List.of(new PlannedRank(0, "a:7", List.of(new ProcessIdentity("b", 4026531836L, 4711, 99))));
    private static final List<TransactionRecord> RECORDS = List.of(
            new TransactionRecord.Begun("m-1", 1, List.of("a:7", "b:7"), RANKS),
            new TransactionRecord.Sealed("m-1", 1, "a:7", RANKS, 5, 6),
            new TransactionRecord.CommitDecided("m-1", 1),
            new TransactionRecord.RollBackDecided("m-1", 1, "why", true),
            new TransactionRecord.Broken("m-1", 1, "why"),
            new TransactionRecord.PreparedHere("m-1", 1, List.of("a:7"), "a:7", "s", RANKS, 8),
            new TransactionRecord.LostSource("m-1", 1, 5),
            new TransactionRecord.Promised("m-1", 1, 5),
            new TransactionRecord.Fencing("m-1", 1, 5),
            new TransactionRecord.TakenOver("m-1", 1, FinalOutcome.COMMITTED),
            new TransactionRecord.CommittedHere("m-1", 1, false),
            new TransactionRecord.RolledBackHere("m-1", 1, "why", false),
            new TransactionRecord.Done("m-1", 1, FinalOutcome.ROLLED_BACK, "why"),
            new TransactionRecord.Requested("m-1", 0, "user root", "job", "a:7"),
            new TransactionRecord.StepTimed("m-1", 1, "commit", -1, "", 5, 6, 7),
            new TransactionRecord.JobPlacement("m-1", 1, "job", 1, 2, "0 1", List.of("0 a")),
            new TransactionRecord.CopyEnded("m-1", 1, true, "kept"),
            new TransactionRecord.PagesChosen("m-1", 1, "streamed: 3 MiB"),
            new TransactionRecord.NothingChanged("m-1", 0),
            new TransactionRecord.PeerNode("m-1", 1, "spare:7411", 10, "01234567-89ab-cdef-0123-456789abcdef"),
            new TransactionRecord.JobStopped("m-1", 1, RANKS));

    @TempDir
    private Path directory;

    /** The sum of all read values. It is not private, so that the compilers do not remove it. */
    long sum;

    private static byte[] record(TransactionRecord record) {
        byte[] body = RecordCodec.written(record).body();
        byte[] bytes = new byte[1 + body.length];
        bytes[0] = (byte) RecordCodec.written(record).type();
        System.arraycopy(body, 0, bytes, 1, body.length);
        return bytes;
    }

    private static byte[] journal(List<TransactionRecord> records, int zeros) {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        bytes.writeBytes(JournalLayout.magic());
        for (TransactionRecord record : records) {
            bytes.writeBytes(JournalLayout.frame(new TransactionJournal.JournalEntry(5, record), record.isStep()));
        }
        bytes.writeBytes(new byte[zeros]);
        return bytes.toByteArray();
    }

    private static Fuzz records() {
        Mutator mutator =
                new Mutator(RECORDS.stream().map(JournalFuzzTest::record).toList(), 64 * 1024);
        return new Fuzz(FuzzPlan.JOURNAL_RECORDS, mutator, List.of(IOException.class)).allocatesAtMost(64 * 1024, 1024);
    }

    private static Fuzz files() {
        List<byte[]> valid =
                List.of(journal(RECORDS, 500), journal(List.of(), 64), journal(RECORDS.subList(0, 3), 1000));
        return new Fuzz(FuzzPlan.JOURNAL_FILES, new Mutator(valid, 32 * 1024), List.of(IOException.class))
                .repairedBy(JournalFuzzTest::withChecksums)
                .allocatesAtMost(256 * 1024, 2048);
    }

    /** The checksums as they must be, as far as the lengths lead. */
    private static byte[] withChecksums(byte[] input) {
        ByteBuffer file = ByteBuffer.wrap(input);
        byte[] magic = JournalLayout.magic();
        System.arraycopy(magic, 0, input, 0, Math.min(magic.length, input.length));
        int offset = JournalLayout.HEADER_BYTES;
        while (offset + 8 < input.length) {
            int length = file.getInt(offset);
            if (length <= 0 || length > input.length - offset - 8) {
                break;
            }
            CRC32C crc = new CRC32C();
            crc.update(input, offset + 8, length);
            file.putInt(offset + 4, (int) crc.getValue());
            offset += 8 + (length + 7) / 8 * 8;
        }
        return input;
    }

    private void readRecord(byte[] input) throws IOException {
        TransactionRecord record =
                input.length == 0 ? null : RecordCodec.decode(input[0], Arrays.copyOfRange(input, 1, input.length));
        if (record == null) {
            throw new IOException("these bytes are no record");
        }
        sum += record.hashCode();
    }

    private void readFile(byte[] input) throws IOException {
        Path path = directory.resolve("journal");
        // An overwritten file is flushed to the disk at once.
        Files.deleteIfExists(path);
        Files.write(path, input);
        int[] counted = {0};
        JournalLayout.scan(path, (entry, offset) -> counted[0]++);
        int records = counted[0];
        sum += TransactionJournal.openIn(MappedJournal.read(path).stream()
                        .map(TransactionJournal.JournalEntry::record)
                        .toList())
                .size();
        if (records % 8 == 2) {
            try (MappedJournal journal = MappedJournal.open(path, 4096, Clock.systemUTC())) {
                journal.appendSynced(new TransactionRecord.CommitDecided("m-2", 1));
                requireThere(journal.records("m-2").size());
            }
            requireThere((int) MappedJournal.read(path).stream()
                    .filter(entry -> entry.record().migrationId().equals("m-2"))
                    .count());
            try (var files = Files.list(directory)) {
                for (Path file : files.toList()) {
                    Files.delete(file);
                }
            }
        }
    }

    private static void requireThere(int count) {
        if (count == 0) {
            throw new AssertionError("a record that was synced is not there");
        }
    }

    @Test
    void shouldTakeOrRefuseWhateverStandsInTheJournal() throws Exception {
        records().inTheGate(this::readRecord);
    }

    @Test
    void shouldOpenOrRefuseByNameWhateverTheJournalsFileHolds() throws Exception {
        files().inTheGate(this::readFile);
    }

    @Tag("soak")
    @Test
    @Timeout(value = 60, unit = TimeUnit.MINUTES)
    void shouldTakeOrRefuseForLongWhateverStandsInTheJournal() throws Exception {
        records().forLong(this::readRecord);
    }

    @Tag("soak")
    @Test
    @Timeout(value = 60, unit = TimeUnit.MINUTES)
    void shouldOpenOrRefuseByNameForLongWhateverTheJournalsFileHolds() throws Exception {
        files().forLong(this::readFile);
    }
}
