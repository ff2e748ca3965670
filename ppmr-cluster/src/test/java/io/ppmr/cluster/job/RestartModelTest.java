package io.ppmr.cluster.job;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.cluster.job.JobRecord.RoundOutcome;
import io.ppmr.cluster.job.RestartModel.Faults;
import io.ppmr.cluster.job.RestartModel.Variant;
import java.util.HashSet;
import java.util.Optional;
import java.util.Set;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Searches the schedules of restarts for a pod that runs twice, and for a job of which only some pods run. */
class RestartModelTest {
    @ParameterizedTest
    @CsvSource({
        "one restart, 0, 0, 1, 0",
        "crashes,     2, 0, 1, 0",
        "failures,    0, 2, 2, 0",
        "both,        1, 1, 2, 0",
        "kills,       1, 0, 2, 2"
    })
    void shouldRunEachPodOnceOrNoneWhateverTheSchedule(
            String name, int crashes, int failures, int restarts, int kills) {
        Set<RoundOutcome> outcomes = new HashSet<>();
        RestartModel model = new RestartModel(Variant.RIGHT, new Faults(crashes, failures, restarts, kills));
        assertEquals(Optional.empty(), model.search(outcomes), name);
        assertTrue(outcomes.contains(RoundOutcome.RESTARTED), "the search reaches restarted jobs");
    }

    @ParameterizedTest
    @CsvSource({
        "HELD_BEFORE_ITS_NOTE,         1, 0, 1, 0",
        "RESTORED_AFTER_RELEASED,      0, 0, 1, 0",
        "RELEASED_BEFORE_ALL_ARE_HELD, 0, 0, 1, 0",
        "ORDERED_WITHOUT_A_QUESTION,   0, 0, 2, 0",
        "COPIES_OF_ANOTHER_RESTART,    0, 1, 2, 0"
    })
    void shouldFindTheDefectWhenARuleIsBroken(Variant broken, int crashes, int failures, int restarts, int kills) {
        RestartModel model = new RestartModel(broken, new Faults(crashes, failures, restarts, kills));
        Optional<String> found = model.search(new HashSet<>());
        assertFalse(found.isEmpty(), broken + " is not found in " + model.states() + " states");
    }
}
