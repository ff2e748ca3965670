package io.ppmr.transaction.journal;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.linux.ProcessIdentity;
import io.ppmr.protocol.control.MigrationSecret;
import io.ppmr.transaction.journal.TransactionRecord.RecordedClock;
import io.ppmr.transaction.rules.CoordinatorRules;
import io.ppmr.transaction.rules.CoordinatorState;
import io.ppmr.transaction.rules.ParticipantRules;
import io.ppmr.transaction.rules.ParticipantState;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Clock;
import java.time.Duration;
import java.time.Instant;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Tests the bytes of version 1 of the journal as earlier releases wrote them, and those of the additional records of
 * versions 2 and 3. Release 0.3.0 writes version 3.
 */
class JournalVersionTest {
    private static final long WRITTEN_MS = 1_700_000_000_000L;
    private static final int SMALL_BYTES = 4096;
    private static final List<String> TARGETS = List.of("a:7", "ü:8");
    private static final List<PlannedRank> RANKS = List.of(
            new PlannedRank(0, "a:7", List.of(new ProcessIdentity("boot", 4026531836L, 4711, 99))),
            new PlannedRank(3, "ü:8", List.of()));
    /** The additional records of version 2: times of another clock instead of the types 6 to 9, and secrets. */
    private static final List<TransactionRecord> OF_VERSION_2 = List.of(
            new TransactionRecord.PreparedHere("t-4", 1, TARGETS, "ü:8", "source:7", RANKS, 8),
            new TransactionRecord.LostSource("t-4", 1, 9),
            new TransactionRecord.Promised("t-4", 1, 10),
            new TransactionRecord.Fencing("t-4", 1, 11),
            new TransactionRecord.Secret("t-4", 1, new MigrationSecret(0x1122334455667788L, 5)),
            new TransactionRecord.Frozen("s-4", 2, List.of("/sys/fs/cgroup/a", "/sys/fs/cgroup/ü")),
            new TransactionRecord.PagesChosen("s-4", 2, "as images: über"),
            new TransactionRecord.NothingChanged("s-4", 0));

    /** The additional record of version 3. */
    private static final List<TransactionRecord> OF_VERSION_3 = List.of(
            new TransactionRecord.PeerNode("s-4", 2, "ü:8", 10, "01234567-89ab-cdef-0123-456789abcdef"),
            new TransactionRecord.PeerNode("t-4", 1, "source", 9, ""));

    /** Every type of record. "s-1" at a source and "t-1" at a target are open. The others have ended. */
    private static final List<TransactionRecord> RECORDS = List.of(
            new TransactionRecord.Requested("s-1", 0, "root", "ring", "to a:7 ü:8"),
            new TransactionRecord.Begun("s-1", 1, TARGETS, RANKS),
            new TransactionRecord.JobStopped("s-1", 1, RANKS),
            new TransactionRecord.Sealed("s-1", 1, "a:7", RANKS, 5_000_000_000L, 3),
            new TransactionRecord.StepTimed("s-1", 1, "transfer", -1, "a:7", WRITTEN_MS, 17, 1L << 40),
            new TransactionRecord.Sealed("s-1", 1, "ü:8", List.of(), -1, 0),
            new TransactionRecord.CommitDecided("s-1", 1),
            new TransactionRecord.JobPlacement("t-1", 2, "ring", 1000, 100, "0 3", List.of("0 a", "3 ü")),
            new TransactionRecord.PreparedHere("t-1", 2, TARGETS, "ü:8", "source:7", RANKS, 8, RecordedClock.AWAKE),
            new TransactionRecord.LostSource("t-1", 2, 9, RecordedClock.AWAKE),
            new TransactionRecord.Promised("t-1", 2, 10, RecordedClock.AWAKE),
            new TransactionRecord.PreparedHere("t-2", 1, TARGETS, "a:7", "source:7", List.of(), 8, RecordedClock.AWAKE),
            new TransactionRecord.Fencing("t-2", 1, 11, RecordedClock.AWAKE),
            new TransactionRecord.TakenOver("t-2", 1, FinalOutcome.COMMITTED),
            new TransactionRecord.CommittedHere("t-2", 1, true),
            new TransactionRecord.Done("t-2", 1, FinalOutcome.COMMITTED, ""),
            new TransactionRecord.Begun("s-2", 1, List.of("a:7"), List.of()),
            new TransactionRecord.Broken("s-2", 1, "an original is gone"),
            new TransactionRecord.RollBackDecided("s-2", 1, "an operator has decided so", true),
            new TransactionRecord.CopyEnded("s-2", 1, false, "The copy is lost."),
            new TransactionRecord.Done("s-2", 1, FinalOutcome.ROLLED_BACK, "übel"),
            new TransactionRecord.RolledBackHere("t-3", 4, "over", false),
            new TransactionRecord.Done("t-3", 4, FinalOutcome.ROLLED_BACK, "over"));

    @TempDir
    Path folder;

    /** Returns the header, then a line for each record. */
    private static List<byte[]> golden() throws IOException {
        try (InputStream in = JournalVersionTest.class.getResourceAsStream("/journal-version-1.hex")) {
            return new String(in.readAllBytes(), StandardCharsets.US_ASCII)
                    .lines()
                    .map(HexFormat.of()::parseHex)
                    .toList();
        }
    }

    private static byte[] frame(int index) {
        TransactionRecord record = RECORDS.get(index);
        return JournalLayout.frame(new TransactionJournal.JournalEntry(WRITTEN_MS + index, record), record.isStep());
    }

    /** Writes a journal as an earlier service left it. */
    private Path old() throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        for (byte[] part : golden()) {
            bytes.writeBytes(part);
        }
        Path path = folder.resolve("journal");
        Files.write(path, Arrays.copyOf(bytes.toByteArray(), SMALL_BYTES));
        return path;
    }

    private static MappedJournal open(Path path, Duration after) throws IOException {
        Clock clock = Clock.fixed(Instant.ofEpochMilli(WRITTEN_MS).plus(after), ZoneOffset.UTC);
        return MappedJournal.open(path, SMALL_BYTES, clock);
    }

    private static List<TransactionRecord> records(Path path) throws IOException {
        return MappedJournal.read(path).stream()
                .map(TransactionJournal.JournalEntry::record)
                .toList();
    }

    @Test
    void shouldWriteTheBytesOfVersion1() throws IOException {
        List<byte[]> golden = golden();
        assertEquals("PPMRJRN1", new String(golden.get(0), StandardCharsets.US_ASCII));
        assertEquals(RECORDS.size() + 1, golden.size());
        for (int i = 0; i < RECORDS.size(); i++) {
            assertEquals(
                    HexFormat.of().formatHex(golden.get(i + 1)),
                    HexFormat.of().formatHex(frame(i)),
                    RECORDS.get(i).toString());
        }
    }

    private static List<TransactionRecord> additional(int version) {
        return version == 2 ? OF_VERSION_2 : OF_VERSION_3;
    }

    private static List<String> goldenOf(int version) throws IOException {
        try (InputStream in = JournalVersionTest.class.getResourceAsStream("/journal-version-" + version + ".hex")) {
            return new String(in.readAllBytes(), StandardCharsets.US_ASCII)
                    .lines()
                    .toList();
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {2, 3})
    void shouldWriteTheBytesOfALaterVersion(int version) throws IOException {
        List<String> golden = goldenOf(version);
        List<TransactionRecord> records = additional(version);
        for (int i = 0; i < records.size(); i++) {
            TransactionRecord record = records.get(i);
            byte[] frame =
                    JournalLayout.frame(new TransactionJournal.JournalEntry(WRITTEN_MS + i, record), record.isStep());
            assertEquals(golden.get(i), HexFormat.of().formatHex(frame), record.toString());
            RecordCodec.Writer written = RecordCodec.written(record);
            assertEquals(record, RecordCodec.decode(written.type(), written.body()));
        }
        assertEquals(records.size(), golden.size());
    }

    /** The journal of 0.3.0, and what a release before or after it may have left: the header and the records. */
    @ParameterizedTest
    @ValueSource(ints = {2, 3})
    void shouldReadTheKeptBytesOfAnEarlierVersion(int version) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        bytes.writeBytes(("PPMRJRN" + version).getBytes(StandardCharsets.US_ASCII));
        List<TransactionRecord> expected = new ArrayList<>(RECORDS);
        golden().stream().skip(1).forEach(bytes::writeBytes);
        for (int later = 2; later <= version; later++) {
            goldenOf(later).forEach(line -> bytes.writeBytes(HexFormat.of().parseHex(line)));
            expected.addAll(additional(later));
        }
        Path path = folder.resolve("journal");
        Files.write(path, Arrays.copyOf(bytes.toByteArray(), 2 * SMALL_BYTES));
        assertEquals(expected, records(path));
        try (MappedJournal journal = open(path, Duration.ofDays(1))) {
            assertEquals('3', Files.readAllBytes(path)[JournalLayout.HEADER_BYTES - 1]);
            assertEquals(List.of("s-1", "t-1", "t-4"), journal.open());
            assertEquals(
                    ParticipantState.Phase.PREPARED,
                    ParticipantRules.recover("t-4", journal.records("t-4"))
                            .state()
                            .phase());
        }
        assertEquals(expected, records(path));
    }

    @Test
    void shouldHaveEveryTypeInTheGoldenJournal() {
        Set<Class<?>> types = Stream.of(RECORDS, OF_VERSION_2, OF_VERSION_3)
                .flatMap(List::stream)
                .map(Object::getClass)
                .collect(Collectors.toSet());
        assertEquals(Set.of(TransactionRecord.class.getPermittedSubclasses()), types);
    }

    @Test
    void shouldRecoverAnOpenMigrationOfAnEarlierRelease() throws IOException {
        Path path = old();
        assertEquals(RECORDS, records(path));
        List<TransactionRecord> more = List.of(
                new TransactionRecord.CommittedHere("t-1", 2, false),
                new TransactionRecord.Done("t-1", 2, FinalOutcome.COMMITTED, ""));
        try (MappedJournal journal = open(path, Duration.ofDays(1))) {
            // The earlier release cannot read the next record. It must refuse the file because of its version.
            assertEquals('3', Files.readAllBytes(path)[JournalLayout.HEADER_BYTES - 1]);
            assertEquals(List.of("s-1", "t-1"), journal.open());
            assertEquals(
                    CoordinatorState.CoordinatorPhase.COMMITTING,
                    CoordinatorRules.replay("s-1", journal.records("s-1")).phase());
            ParticipantState target =
                    ParticipantRules.recover("t-1", journal.records("t-1")).state();
            assertEquals(ParticipantState.Phase.PREPARED, target.phase());
            assertTrue(target.promised());
            for (TransactionRecord record : more) {
                journal.appendSynced(record);
            }
        }
        assertEquals(Stream.concat(RECORDS.stream(), more.stream()).toList(), records(path));
        try (MappedJournal journal = open(path, Duration.ofDays(1))) {
            assertEquals(List.of("s-1"), journal.open());
        }
    }

    @Test
    void shouldKeepOpenMigrationsAndRecentOutcomesOfAnEarlierRelease() throws IOException {
        assertEquals(List.of("s-1", "s-1", "t-1", "t-1", "t-2", "t-2", "s-2", "t-3", "t-3"), kept(Duration.ofDays(29)));
        assertEquals(List.of("s-1", "s-1", "t-1", "t-1"), kept(Duration.ofDays(31)));
    }

    /** The migrations of the golden journal's steps that the next file begins with, one for each record. */
    /** Returns the records of one file. */
    private static List<TransactionRecord> recordsOf(Path file) throws IOException {
        List<TransactionRecord> records = new ArrayList<>();
        JournalLayout.scan(file, (entry, offset) -> records.add(entry.record()));
        return records;
    }

    private List<String> kept(Duration after) throws IOException {
        Path path = old();
        TransactionRecord filler = new TransactionRecord.Requested("x", 0, "root", "ring", "x".repeat(500));
        List<String> kept = new ArrayList<>();
        try (MappedJournal journal = open(path, after)) {
            while (Files.size(path) == SMALL_BYTES && !Files.exists(folder.resolve("journal.000001"))) {
                journal.appendSynced(filler);
            }
        }
        recordsOf(path).stream()
                .filter(record -> record instanceof TransactionRecord.Begun
                        || record instanceof TransactionRecord.CommitDecided
                        || record instanceof TransactionRecord.PreparedHere
                        || record instanceof TransactionRecord.Promised
                        || record instanceof TransactionRecord.CommittedHere
                        || record instanceof TransactionRecord.RolledBackHere
                        || record instanceof TransactionRecord.Done)
                .forEach(record -> kept.add(record.migrationId()));
        assertEquals(
                RECORDS,
                recordsOf(folder.resolve("journal.000001")).stream()
                        .filter(record -> !record.equals(filler))
                        .toList());
        Files.delete(folder.resolve("journal.000001"));
        return kept;
    }

    @Test
    void shouldRefuseAnUnknownVersion() throws IOException {
        Path path = old();
        byte[] bytes = Files.readAllBytes(path);
        bytes[JournalLayout.HEADER_BYTES - 1] = '9';
        Files.write(path, bytes);
        String refusal =
                assertThrows(IOException.class, () -> open(path, Duration.ZERO)).getMessage();
        assertTrue(refusal.contains(path.toString()) && refusal.contains("version '9'"), refusal);
        assertEquals('9', Files.readAllBytes(path)[JournalLayout.HEADER_BYTES - 1]);
    }
}
