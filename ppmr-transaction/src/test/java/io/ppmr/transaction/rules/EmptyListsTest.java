package io.ppmr.transaction.rules;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.linux.ProcessIdentity;
import io.ppmr.transaction.journal.FinalOutcome;
import io.ppmr.transaction.journal.PlannedRank;
import io.ppmr.transaction.journal.TransactionRecord;
import io.ppmr.transaction.rules.CoordinatorEvent.OriginalsState;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.Test;

/**
 * All members of an empty list have sealed, voted and confirmed. Therefore no migration begins without a participant.
 * Records that lack the beginning neither kill originals nor release copies.
 */
class EmptyListsTest {
    private static final String ID = "m-1";
    private static final int LONGEST = 3;
    private static final List<PlannedRank> RANKS =
            List.of(new PlannedRank(0, "a:1", List.of(new ProcessIdentity("boot", 1, 7, 2))));
    private static final Set<Class<?>> FATAL =
            Set.of(Effect.EndOriginals.class, Effect.ContinueOriginals.class, Effect.ReleaseCopies.class);

    @Test
    void shouldRefuseToBeginWhenThereIsNoParticipant() {
        assertThrows(IllegalArgumentException.class, () -> new CoordinatorEvent.Start(List.of(), RANKS));
        assertThrows(
                IllegalArgumentException.class, () -> CoordinatorState.fresh(ID).preparing(1, List.of(), RANKS));
        assertThrows(IllegalArgumentException.class, () -> new TransactionRecord.Begun(ID, 1, List.of(), RANKS));
    }

    @Test
    void shouldRefuseToVoteWhenThereIsNoCopyOrNoParticipant() {
        assertThrows(IllegalArgumentException.class, () -> new ParticipantEvent.CopiesHeld("s", List.of(), 1));
        assertThrows(
                IllegalArgumentException.class,
                () -> new TransactionRecord.PreparedHere(ID, 1, List.of(), "", "s", RANKS, 1));
        assertThrows(
                IllegalArgumentException.class, () -> ParticipantState.fresh(ID).begun(1, List.of(), ""));
        assertThrows(
                IllegalArgumentException.class,
                () -> ParticipantState.fresh(ID).begun(1, List.of("a:1"), "b:1"),
                "one that is none of the participants would wait for no answer");
    }

    @Test
    void shouldEnterBrokenWhenOriginalsAreGoneAndNotAllMayHaveVoted() {
        TransactionRecord begun = new TransactionRecord.Begun(ID, 1, List.of("a:1"), RANKS);
        Transition<CoordinatorState> first = CoordinatorRules.recover(ID, List.of(begun), OriginalsState.DEAD);
        assertEquals(CoordinatorState.CoordinatorPhase.BROKEN, first.state().phase());
    }

    /** Tests every sequence of a coordinator's records without its beginning, and every state of the originals. */
    @Test
    void shouldKillNoOriginalWhenTheJournalHasNoBeginning() {
        List<TransactionRecord> records = List.of(
                new TransactionRecord.Sealed(ID, 1, "a:1", RANKS, 0, 0),
                new TransactionRecord.CommitDecided(ID, 1),
                new TransactionRecord.RollBackDecided(ID, 1, "why", true),
                new TransactionRecord.RollBackDecided(ID, 1, "why", false),
                new TransactionRecord.Broken(ID, 1, "why"),
                new TransactionRecord.Done(ID, 1, FinalOutcome.COMMITTED, ""),
                new TransactionRecord.Done(ID, 1, FinalOutcome.ROLLED_BACK, ""));
        int refused = 0;
        for (List<TransactionRecord> all : sequences(records)) {
            for (OriginalsState originals : OriginalsState.values()) {
                refused += touchesNothing(() -> CoordinatorRules.recover(ID, all, originals)) ? 0 : 1;
            }
        }
        assertTrue(refused > 0, "some of these sequences must be refused");
    }

    /** Tests every sequence of a participant's records without its vote. */
    @Test
    void shouldReleaseNoCopyWhenTheJournalHasNoVote() {
        List<TransactionRecord> records = List.of(
                new TransactionRecord.LostSource(ID, 1, 5),
                new TransactionRecord.Promised(ID, 1, 5),
                new TransactionRecord.Fencing(ID, 1, 5),
                new TransactionRecord.TakenOver(ID, 1, FinalOutcome.COMMITTED),
                new TransactionRecord.TakenOver(ID, 1, FinalOutcome.ROLLED_BACK));
        int refused = 0;
        for (List<TransactionRecord> all : sequences(records)) {
            refused += touchesNothing(() -> ParticipantRules.recover(ID, all)) ? 0 : 1;
        }
        assertTrue(refused > 0, "some of these sequences must be refused");
    }

    private interface Recovery {
        Transition<?> first();
    }

    /** Returns false if the recovery is refused. Fails if an original or a copy is touched. */
    private static boolean touchesNothing(Recovery recovery) {
        Transition<?> first;
        try {
            first = recovery.first();
        } catch (IllegalArgumentException refused) {
            return false;
        }
        assertFalse(
                first.effects().stream().map(Object::getClass).anyMatch(FATAL::contains), first.effects()::toString);
        return true;
    }

    private static List<List<TransactionRecord>> sequences(List<TransactionRecord> records) {
        List<List<TransactionRecord>> all = new ArrayList<>(List.of(List.of()));
        for (int from = 0, length = 0; length < LONGEST; length++) {
            int to = all.size();
            for (; from < to; from++) {
                for (TransactionRecord record : records) {
                    List<TransactionRecord> longer = new ArrayList<>(all.get(from));
                    longer.add(record);
                    all.add(longer);
                }
            }
        }
        return all;
    }
}
