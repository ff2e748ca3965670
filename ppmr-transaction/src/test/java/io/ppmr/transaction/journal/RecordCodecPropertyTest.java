package io.ppmr.transaction.journal;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.ppmr.linux.ProcessIdentity;
import io.ppmr.protocol.control.MigrationSecret;
import io.ppmr.transaction.journal.TransactionRecord.RecordedClock;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import net.jqwik.api.Example;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.Size;

class RecordCodecPropertyTest {
    private static void requireRoundTrip(TransactionRecord record) {
        byte[] body = RecordCodec.written(record).body();
        assertEquals(record, RecordCodec.decode(RecordCodec.written(record).type(), body));
    }

    @Property(tries = 300)
    void shouldDecodeEveryEncodedRecord(
            @ForAll String id,
            @ForAll int attempt,
            @ForAll @Size(min = 1, max = 5) List<String> names,
            @ForAll @Size(max = 4) List<Long> numbers,
            @ForAll boolean flag,
            @ForAll String text) {
        List<PlannedRank> ranks = new ArrayList<>();
        for (long number : numbers) {
            ProcessIdentity process = new ProcessIdentity(text, number, (int) number, number ^ 77);
            ranks.add(new PlannedRank((int) number, text, flag ? List.of(process, process) : List.of()));
        }
        FinalOutcome outcome = flag ? FinalOutcome.COMMITTED : FinalOutcome.ROLLED_BACK;
        requireRoundTrip(new TransactionRecord.Begun(id, attempt, names, ranks));
        requireRoundTrip(new TransactionRecord.Sealed(id, attempt, text, ranks, attempt, 7));
        requireRoundTrip(new TransactionRecord.PreparedHere(id, attempt, names, text, id, ranks, 8));
        requireRoundTrip(new TransactionRecord.RollBackDecided(id, attempt, text, flag));
        requireRoundTrip(new TransactionRecord.TakenOver(id, attempt, outcome));
        requireRoundTrip(new TransactionRecord.RolledBackHere(id, attempt, text, flag));
        requireRoundTrip(new TransactionRecord.Done(id, attempt, outcome, text));
        requireRoundTrip(new TransactionRecord.Secret(id, attempt, new MigrationSecret(attempt, 7)));
        requireRoundTrip(new TransactionRecord.PeerNode(id, attempt, id + "p", attempt, id + "b"));
        requireRoundTrip(new TransactionRecord.Requested(id, attempt, text, id, text));
        requireRoundTrip(new TransactionRecord.JobPlacement(id, attempt, text, 1, 2, id, names));
        requireRoundTrip(new TransactionRecord.StepTimed(id, attempt, text, 3, id, 4, 5, 6));
        requireRoundTrip(new TransactionRecord.CopyEnded(id, attempt, true, text));
        requireRoundTrip(new TransactionRecord.PagesChosen(id, attempt, text));
        requireRoundTrip(new TransactionRecord.NothingChanged(id, attempt));
        requireRoundTrip(new TransactionRecord.JobStopped(id, attempt, ranks));
    }

    /** Reads records as the release before the record of stopped processes wrote them. */
    @Example
    void shouldReadAnOpenMigrationOfTheReleaseBefore() {
        String id = "00000003 6d2d31 00000001 ";
        String name = "00000003 613a37 ";
        String ranks = "00000001 00000000 " + name + "00000001 00000001 62 00000000effffffc 00001267 0000000000000063 ";
        List<PlannedRank> planned =
                List.of(new PlannedRank(0, "a:7", List.of(new ProcessIdentity("b", 4026531836L, 4711, 99))));
        List<TransactionRecord> old = List.of(
                decoded(1, id + "00000001 " + name + ranks),
                decoded(2, id + name + ranks + "0000000000000005 0000000000000006"),
                decoded(6, id + "00000001 " + name + name + "00000001 73 " + ranks + "0000000000000008"));
        assertEquals(
                List.of(
                        new TransactionRecord.Begun("m-1", 1, List.of("a:7"), planned),
                        new TransactionRecord.Sealed("m-1", 1, "a:7", planned, 5, 6),
                        new TransactionRecord.PreparedHere(
                                "m-1", 1, List.of("a:7"), "a:7", "s", planned, 8, RecordedClock.AWAKE)),
                old);
        assertEquals(
                List.of(), TransactionRecord.JobStopped.of(old, 0, 0), "the older release has no stopped processes");
        assertEquals(List.of("m-1"), TransactionJournal.openIn(old));
    }

    private static TransactionRecord decoded(int type, String hex) {
        return RecordCodec.decode(type, HexFormat.of().parseHex(hex.replace(" ", "")));
    }

    @Property(tries = 500)
    void shouldNotThrowWhenBytesAreNoRecord(@ForAll int type, @ForAll byte[] bytes) {
        // No exception follows, whatever the bytes are. The CRC is checked elsewhere.
        for (int known = 0; known <= 18; known++) {
            TransactionRecord record = RecordCodec.decode(known, bytes);
            if (record != null) {
                assertEquals(known, RecordCodec.written(record).type());
            }
        }
        assertEquals(null, RecordCodec.decode(Math.abs(type % 1000) + 100, bytes));
    }
}
