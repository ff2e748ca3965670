package io.ppmr.migration.target;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.linux.ProcessIdentity;
import io.ppmr.transaction.journal.PlannedRank;
import io.ppmr.transaction.journal.TransactionRecord;
import java.util.List;
import org.junit.jupiter.api.Test;

/**
 * Tests that a target reports only its existing copies as held, because the source kills the originals after that
 * report.
 */
class RestoredRanksTest {
    @Test
    void shouldNotCountAsHeldWhenThereIsNoCopy() {
        assertEquals("no copy of migration m-1 is known here", new RestoredRanks("m-1").whyNotHeld());
    }

    @Test
    void shouldNotCountAsHeldWhenTheVoteNamesNoCopyOrACopyWithoutProcesses() {
        assertFalse(recorded(List.of()).whyNotHeld().isEmpty());
        String why = recorded(List.of(new PlannedRank(2, "a:7", List.of()))).whyNotHeld();
        assertTrue(why.contains("rank 2 is not held"), why);
        ProcessIdentity gone = new ProcessIdentity("another boot", 1, 7, 2);
        why = recorded(List.of(new PlannedRank(2, "a:7", List.of(gone)))).whyNotHeld();
        assertTrue(why.contains("PID 7 is gone"), why);
    }

    private static RestoredRanks recorded(List<PlannedRank> copies) {
        return RestoredRanks.recorded(
                "m-1", List.of(new TransactionRecord.PreparedHere("m-1", 1, List.of("a:7"), "a:7", "s", copies, 1)));
    }
}
