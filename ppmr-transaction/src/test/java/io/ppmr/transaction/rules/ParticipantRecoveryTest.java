package io.ppmr.transaction.rules;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.transaction.journal.FinalOutcome;
import io.ppmr.transaction.journal.TransactionRecord;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Tests a restarted participant that decided and may not have carried out the decision. */
class ParticipantRecoveryTest {
    private static final String ID = "m-1";
    private static final TransactionRecord VOTE =
            new TransactionRecord.PreparedHere(ID, 1, List.of("t:1"), "t:1", "s", List.of(), 1);

    private static List<Effect> effects(TransactionRecord... records) {
        return ParticipantRules.recover(ID, List.of(records)).effects();
    }

    @Test
    void shouldReleaseTheCopiesWhenItDiedBetweenItsCommitAndTheirRelease() {
        List<Effect> effects = effects(VOTE, new TransactionRecord.CommittedHere(ID, 1, false));
        assertTrue(effects.contains(new Effect.ReleaseCopies()), effects.toString());
        assertTrue(effects.stream().anyMatch(Effect.Finished.class::isInstance), effects.toString());
    }

    @Test
    void shouldEndTheCopiesWhenItDiedBetweenItsRollbackAndTheirEnd() {
        List<Effect> effects = effects(VOTE, new TransactionRecord.RolledBackHere(ID, 1, "why", false));
        assertTrue(effects.contains(new Effect.EndCopies()), effects.toString());
        assertTrue(effects.stream().anyMatch(Effect.Finished.class::isInstance), effects.toString());
    }

    @Test
    void shouldLeaveTheCopiesAloneWhenAllWasCarriedOut() {
        assertEquals(
                List.of(),
                effects(
                        VOTE,
                        new TransactionRecord.CommittedHere(ID, 1, false),
                        new TransactionRecord.Done(ID, 1, FinalOutcome.COMMITTED, "")));
    }
}
