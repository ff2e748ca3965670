package io.ppmr.transaction.rules;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.ppmr.linux.ProcessIdentity;
import io.ppmr.transaction.journal.PlannedRank;
import io.ppmr.transaction.journal.TransactionRecord;
import io.ppmr.transaction.rules.CoordinatorEvent.OriginalsState;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Tests the records that the source writes when it tries again. */
class CoordinatorRulesTest {
    private static final String ID = "m-1";

    @Test
    void shouldRecordTheOriginalsAgainWhenAnotherAttemptBegins() {
        List<PlannedRank> roots = List.of(rank(0, "a:1", 10), rank(1, "b:1", 20));
        CoordinatorState state = CoordinatorState.fresh(ID)
                .preparing(1, List.of("a:1", "b:1"), roots)
                .holding(List.of(rank(1, "b:1", 21)))
                .withNext(List.of("a:1", "c:1"))
                .rollingBack(false);
        Transition<CoordinatorState> next =
                CoordinatorRules.apply(state, new CoordinatorEvent.Proved(OriginalsState.HELD, ""));
        Effect.Persist begun = (Effect.Persist) next.effects().get(0);
        assertEquals(
                new TransactionRecord.Begun(
                        ID, 2, List.of("a:1", "c:1"), List.of(rank(0, "a:1", 10), rank(1, "c:1", 21))),
                begun.record());
    }

    private static PlannedRank rank(int number, String participant, int pid) {
        return new PlannedRank(number, participant, List.of(new ProcessIdentity("boot", 1, pid, 2)));
    }
}
