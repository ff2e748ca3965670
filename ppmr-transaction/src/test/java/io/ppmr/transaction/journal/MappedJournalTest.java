package io.ppmr.transaction.journal;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.linux.ProcessIdentity;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Clock;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

class MappedJournalTest {
    private static final long SMALL_BYTES = 8192;
    private static final TransactionRecord ONE = new TransactionRecord.Begun(
            "m1",
            1,
            List.of("a:7", "b:7"),
            List.of(new PlannedRank(0, "a:7", List.of(new ProcessIdentity("boot", 4026531836L, 4711, 99)))));
    private static final TransactionRecord TWO =
            new TransactionRecord.Sealed("m1", 1, "a:7", List.of(), 5_000_000_000L, 3);
    private static final TransactionRecord THREE =
            new TransactionRecord.RollBackDecided("m1", 1, "the link to b:7 is lost: übel", false);

    private static final JournalLayout.EntryVisitor NONE = (entry, offset) -> {};

    @TempDir
    Path folder;

    private Path path() {
        return folder.resolve("journal");
    }

    private MappedJournal open() throws IOException {
        return MappedJournal.open(path(), SMALL_BYTES, Clock.systemUTC());
    }

    private static List<TransactionRecord> records(Path path) throws IOException {
        return MappedJournal.read(path).stream()
                .map(TransactionJournal.JournalEntry::record)
                .toList();
    }

    private void writeThree() throws IOException {
        try (MappedJournal journal = open()) {
            journal.appendSynced(ONE);
            journal.append(TWO);
            journal.appendSynced(THREE);
        }
    }

    @Test
    void shouldReturnTheRecordsWhenOpenedAgain() throws IOException {
        writeThree();
        try (MappedJournal journal = open()) {
            assertEquals(List.of(ONE, TWO, THREE), journal.records("m1"));
            assertEquals(List.of("m1"), journal.open());
            journal.appendSynced(new TransactionRecord.Done("m1", 1, FinalOutcome.ROLLED_BACK, "x"));
            assertEquals(List.of(), journal.open());
        }
        assertEquals(4, records(path()).size());
        assertEquals("rw-------", PosixFilePermissions.toString(Files.getPosixFilePermissions(path())));
    }

    @Test
    void shouldRefuseToWriteWhenClosed() throws IOException {
        MappedJournal journal = open();
        journal.appendSynced(ONE);
        journal.close();
        String message =
                assertThrows(IOException.class, () -> journal.append(TWO)).getMessage();
        assertTrue(message.contains(path() + " is closed"), message);
        assertEquals(List.of(ONE), records(path()));
    }

    @Test
    void shouldBeReadableWhileItsServiceRuns() throws IOException {
        try (MappedJournal journal = open()) {
            journal.append(ONE);
            assertEquals(List.of(ONE), records(path()));
        }
    }

    @Test
    void shouldDropATornLastRecordWhereverItIsTorn() throws IOException {
        writeThree();
        byte[] whole = Files.readAllBytes(path());
        int end = JournalLayout.scan(path(), NONE);
        int last = end - JournalLayout.frame(new TransactionJournal.JournalEntry(0, THREE), true).length;
        int body = lastNonZero(whole, end);
        for (int cut = last; cut <= body; cut++) {
            byte[] torn = whole.clone();
            java.util.Arrays.fill(torn, cut, end, (byte) 0);
            Files.write(path(), torn);
            assertEquals(List.of(ONE, TWO), records(path()), "torn at byte " + cut);
            try (MappedJournal journal = open()) {
                journal.appendSynced(TWO);
            }
            assertEquals(List.of(ONE, TWO, TWO), records(path()), "torn at byte " + cut);
        }
    }

    private static int lastNonZero(byte[] bytes, int end) {
        int at = end - 1;
        while (bytes[at] == 0) {
            at--;
        }
        return at;
    }

    @Test
    void shouldNeverReturnAWrongRecordWhenABitFlipped() throws IOException {
        writeThree();
        byte[] whole = Files.readAllBytes(path());
        int end = JournalLayout.scan(path(), NONE);
        int refused = 0;
        for (int bit = 8 * JournalLayout.HEADER_BYTES; bit < 8 * end; bit++) {
            byte[] flipped = whole.clone();
            flipped[bit / 8] ^= (byte) (1 << bit % 8);
            Files.write(path(), flipped);
            try {
                List<TransactionRecord> read = records(path());
                assertEquals(List.of(ONE, TWO, THREE).subList(0, read.size()), read, "bit " + bit);
            } catch (IOException e) {
                assertTrue(e.getMessage().contains("damaged"), e.getMessage());
                refused++;
            }
        }
        assertTrue(refused > 0, "damage before a synced record is never noticed");
    }

    @Test
    void shouldKeepOpenMigrationsAndOutcomesWhenAFileIsFull() throws IOException {
        TransactionRecord ended = new TransactionRecord.CommittedHere("old", 2, false);
        TransactionRecord done = new TransactionRecord.Done("old", 2, FinalOutcome.COMMITTED, "");
        int written = 0;
        try (MappedJournal journal = open()) {
            journal.appendSynced(new TransactionRecord.LostSource("old", 2, 7));
            journal.appendSynced(ended);
            journal.appendSynced(done);
            journal.appendSynced(ONE);
            for (; written < 300; written++) {
                journal.append(new TransactionRecord.StepTimed("m1", 1, "checkpoint", written, "", 1, 2, 3));
            }
            assertEquals(301, journal.records("m1").size());
            assertEquals(List.of(ended, done), journal.records("old"));
        }
        try (MappedJournal journal = open()) {
            assertEquals(ONE, journal.records("m1").get(0));
            assertEquals(301, journal.records("m1").size());
            assertEquals(List.of("m1"), journal.open());
        }
        List<TransactionRecord> all = records(path());
        assertEquals(304, all.size(), "history reads the older files too, and nothing twice");
        assertTrue(Files.exists(folder.resolve("journal.000001")));
    }

    @Test
    void shouldKeepTheRecordsBeforeAVoteWhenTheVoteBeginsANewFile() throws IOException {
        TransactionRecord before = new TransactionRecord.JobStopped("m2", 2, List.of());
        TransactionRecord vote =
                new TransactionRecord.PreparedHere("m2", 2, List.of("a:7"), "a:7", "x".repeat(3000), List.of(), 1);
        for (int filling = 0; filling < 200; filling += 5) {
            Files.deleteIfExists(path());
            try (MappedJournal journal = open()) {
                for (int i = 0; i < filling; i++) {
                    journal.append(new TransactionRecord.StepTimed("m1", 1, "checkpoint", i, "", 1, 2, 3));
                }
                journal.append(before);
                journal.appendSynced(vote);
                assertEquals(List.of(before, vote), journal.records("m2"), "after " + filling + " records");
            }
        }
    }

    /**
     * At each eighth byte the file looks like the start of a synced record, so that reading them all takes too long.
     */
    @Test
    @Timeout(60)
    void shouldRefuseSoonWhenEveryByteLooksLikeARecord() throws IOException {
        ByteBuffer file = ByteBuffer.allocate(4 << 20);
        file.put(JournalLayout.magic());
        while (file.hasRemaining()) {
            // A length of 64 KiB. Its second byte is the sync mark of the record before it.
            file.putInt(1 << 16).putInt(0);
        }
        Files.write(path(), file.array());
        IOException refusal = assertThrows(IOException.class, () -> JournalLayout.scan(path(), NONE));
        assertTrue(refusal.getMessage().contains("look like records"), refusal.getMessage());
    }

    @Test
    void shouldRefuseASecondOpener() throws IOException {
        try (MappedJournal journal = open()) {
            journal.append(ONE);
            IOException refused = assertThrows(IOException.class, this::open);
            assertTrue(refused.getMessage().contains(path().toString()), refused.getMessage());
        }
        open().close();
    }

    @Test
    void shouldRefuseASecondProcess() throws Exception {
        try (MappedJournal journal = open()) {
            journal.append(ONE);
            String java =
                    Path.of(System.getProperty("java.home"), "bin", "java").toString();
            Process other = new ProcessBuilder(
                            java, "-cp", System.getProperty("java.class.path"), Opener.class.getName(), "" + path())
                    .redirectErrorStream(true)
                    .start();
            try (InputStream out = other.getInputStream()) {
                String output = new String(out.readAllBytes(), StandardCharsets.UTF_8);
                assertTrue(other.waitFor(60, TimeUnit.SECONDS), "the other process does not end");
                assertTrue(output.contains("belongs to another running service"), output);
            } finally {
                other.destroyForcibly();
            }
        }
    }

    /** Opens a journal in another process. */
    static final class Opener {
        private Opener() {}

        public static void main(String[] arguments) {
            try (MappedJournal journal = MappedJournal.open(Path.of(arguments[0]))) {
                System.out.println("opened " + journal.open());
            } catch (IOException e) {
                System.out.println(e.getMessage());
            }
        }
    }

    @Test
    void shouldRefuseAFileThatIsNoJournal() throws IOException {
        Files.writeString(path(), "x".repeat(100));
        IOException refused = assertThrows(IOException.class, this::open);
        assertTrue(refused.getMessage().contains("no journal"), refused.getMessage());
    }

    /** Adds a record with the bytes of this body and a right CRC. */
    private void addRaw(int type, byte[] body) throws IOException {
        byte[] file = Files.readAllBytes(path());
        byte[] frame = JournalLayout.frame(type, 5, body, true);
        System.arraycopy(frame, 0, file, JournalLayout.scan(path(), NONE), frame.length);
        Files.write(path(), file);
    }

    @Test
    void shouldRefuseWhenAMigrationHasNoParticipant() throws IOException {
        writeThree();
        byte[] body = RecordCodec.written(new TransactionRecord.Begun("m9", 1, List.of("a:7"), List.of()))
                .body();
        // The count of participants and the one participant become a count of 0.
        ByteBuffer none = ByteBuffer.allocate(body.length - 4 - 3);
        none.put(body, 0, 4 + 2 + 4).putInt(0).putInt(0);
        addRaw(1, none.array());
        IOException refused = assertThrows(IOException.class, this::open);
        assertTrue(refused.getMessage().contains("a whole record that this release cannot read"), refused.getMessage());
    }

    @Test
    void shouldRefuseWhenAnOpenMigrationHasNoBeginning() throws IOException {
        try (MappedJournal journal = open()) {
            journal.appendSynced(new TransactionRecord.CommitDecided("m9", 1));
        }
        IOException refused = assertThrows(IOException.class, this::open);
        assertTrue(refused.getMessage().contains("steps of migration m9 without its beginning"), refused.getMessage());
    }

    /** A late query must still find that the participant has committed, in a file of many other outcomes. */
    @Test
    void shouldFindAnEndAmongManyWhenItIsAskedLate() throws IOException {
        int others = 20_000;
        try (MappedJournal journal = open()) {
            journal.append(new TransactionRecord.PreparedHere("late", 1, List.of("a:7"), "a:7", "s", List.of(), 1));
            journal.append(new TransactionRecord.CommittedHere("late", 1, false));
            journal.append(new TransactionRecord.Done("late", 1, FinalOutcome.COMMITTED, ""));
            for (int i = 0; i < others; i++) {
                journal.append(new TransactionRecord.Begun("other-" + i, 1, List.of("a:7"), List.of()));
                journal.append(new TransactionRecord.Done("other-" + i, 1, FinalOutcome.ROLLED_BACK, "it fails"));
            }
            assertEquals(2, journal.records("late").size(), "its vote is no outcome, and is not kept");
        }
        try (MappedJournal journal = open()) {
            assertEquals(List.of(), journal.open());
            assertEquals(
                    List.of(
                            new TransactionRecord.CommittedHere("late", 1, false),
                            new TransactionRecord.Done("late", 1, FinalOutcome.COMMITTED, "")),
                    journal.records("late"));
            int last = others - 1;
            TransactionRecord end =
                    new TransactionRecord.Done("other-" + last, 1, FinalOutcome.ROLLED_BACK, "it fails");
            assertEquals(
                    end,
                    journal.records("other-" + last)
                            .get(journal.records("other-" + last).size() - 1));
            assertEquals(List.of(), journal.records("other-"), "a prefix of other names is another name");
        }
    }
}
