package io.ppmr.cluster.job;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.cluster.job.JobRecord.RoundOutcome;
import io.ppmr.cluster.job.MoveModel.Faults;
import io.ppmr.cluster.job.MoveModel.Variant;
import java.util.HashSet;
import java.util.Optional;
import java.util.Set;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Searches the schedules of migrations and restarts for a pod that runs twice. */
class MoveModelTest {
    @ParameterizedTest
    @CsvSource({
        "one,            1, 0, 1, 0, 2, 1",
        "two in a row,   2, 0, 1, 0, 2, 1",
        "and a recorded, 1, 1, 1, 0, 2, 1",
        "two recorded,   0, 2, 1, 0, 2, 1",
        "a node off,     1, 0, 1, 1, 2, 1",
        "recorded and off, 0, 1, 1, 1, 2, 1",
        "two restarts,   1, 0, 1, 0, 4, 2"
    })
    void shouldRunNoPodTwiceWhateverTheSchedule(
            String name, int unrecorded, int recorded, int silences, int offs, int kills, int restarts) {
        Set<RoundOutcome> outcomes = new HashSet<>();
        MoveModel model =
                new MoveModel(Variant.RIGHT, new Faults(unrecorded, recorded, silences, offs, kills, restarts));
        assertEquals(Optional.empty(), model.search(outcomes), name);
        assertTrue(outcomes.contains(RoundOutcome.RESTARTED), "the search reaches restarted jobs");
    }

    @ParameterizedTest
    @CsvSource({
        "MOVED_ANSWER_IGNORED,  1, 0, 1, 0, 1, 1",
        "OFF_NODE_TRUSTED,      1, 0, 1, 1, 1, 1",
        "MOVED_WITHOUT_A_NOTE,  1, 0, 1, 0, 1, 1",
        "NOTE_REMOVED_EARLY,    1, 0, 1, 0, 1, 1",
        "OUT_OF_ORDER,          2, 0, 1, 0, 1, 1",
        "REGISTERED_WHILE_OPEN, 0, 1, 1, 0, 1, 1",
        "OFF_BEFORE_THE_ANSWER, 1, 0, 1, 1, 1, 1",
        "PLANNED_WHILE_OPEN,    0, 2, 1, 0, 1, 1",
        "PLAN_OF_AN_OLDER_RECORD, 0, 2, 0, 0, 1, 1"
    })
    void shouldFindTheDefectWhenARuleIsBroken(
            Variant broken, int unrecorded, int recorded, int silences, int offs, int kills, int restarts) {
        MoveModel model = new MoveModel(broken, new Faults(unrecorded, recorded, silences, offs, kills, restarts));
        Optional<String> found = model.search(new HashSet<>());
        assertFalse(found.isEmpty(), broken + " is not found in " + model.states() + " states");
    }
}
