package io.ppmr.transaction;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.ArrayList;
import java.util.List;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.Size;

class RecordCodecPropertyTest {
    private static void comesBack(TransactionRecord record) {
        byte[] body = RecordCodec.encode(record);
        assertEquals(record, RecordCodec.decode(RecordCodec.typeOf(record), body));
    }

    @Property(tries = 300)
    void shouldGiveBackEveryRecord(
            @ForAll String id,
            @ForAll int attempt,
            @ForAll @Size(max = 5) List<String> names,
            @ForAll @Size(max = 4) List<Long> numbers,
            @ForAll boolean flag,
            @ForAll String text) {
        List<PlannedRank> ranks = new ArrayList<>();
        for (long number : numbers) {
            NamedProcess process = new NamedProcess(text, number, (int) number, number ^ 77);
            ranks.add(new PlannedRank((int) number, text, flag ? List.of(process, process) : List.of()));
        }
        Outcome outcome = flag ? Outcome.COMMITTED : Outcome.ROLLED_BACK;
        comesBack(new TransactionRecord.Begun(id, attempt, names, ranks));
        comesBack(new TransactionRecord.Sealed(id, attempt, text, ranks, attempt, 7));
        comesBack(new TransactionRecord.Prepared(id, attempt, names, text, id, ranks, 8));
        comesBack(new TransactionRecord.RollBackDecided(id, attempt, text, flag));
        comesBack(new TransactionRecord.TakenOver(id, attempt, outcome));
        comesBack(new TransactionRecord.RolledBackHere(id, attempt, text, flag));
        comesBack(new TransactionRecord.Done(id, attempt, outcome, text));
        comesBack(new TransactionRecord.Asked(id, attempt, text, id, text));
        comesBack(new TransactionRecord.Placement(id, attempt, text, 1, 2, id, names));
        comesBack(new TransactionRecord.StepTimed(id, attempt, text, 3, id, 4, 5, 6));
    }

    @Property(tries = 500)
    void shouldGiveNothingOrSomethingWhenBytesAreNoRecord(@ForAll int type, @ForAll byte[] bytes) {
        // Nothing is thrown, whatever the bytes are; what the CRC lets pass is another matter.
        for (int known = 0; known <= 17; known++) {
            TransactionRecord record = RecordCodec.decode(known, bytes);
            if (record != null) {
                assertEquals(known, RecordCodec.typeOf(record));
            }
        }
        assertEquals(null, RecordCodec.decode(Math.abs(type % 1000) + 100, bytes));
    }
}
