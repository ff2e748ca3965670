package io.ppmr.cluster.job;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.cluster.job.CheckpointModel.Faults;
import io.ppmr.cluster.job.CheckpointModel.Variant;
import io.ppmr.cluster.job.JobRecord.RoundOutcome;
import java.util.HashSet;
import java.util.Optional;
import java.util.Set;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Searches the schedules of checkpoints for a set without a moment at which all cables were out. */
class CheckpointModelTest {
    @ParameterizedTest
    @CsvSource({
        "two rounds,      2, 0, 0, 0, 0, 0",
        "limits,          1, 0, 0, 0, 2, 0",
        "crash,           1, 1, 0, 0, 1, 0",
        "loss,            1, 0, 1, 0, 1, 0",
        "move,            1, 0, 0, 1, 1, 0",
        "frozen,          1, 0, 0, 0, 1, 1"
    })
    void shouldWriteNoSetWithoutACutWhateverTheSchedule(
            String name, int rounds, int crashes, int losses, int moves, int limits, int takeOvers) {
        Set<RoundOutcome> outcomes = new HashSet<>();
        CheckpointModel model =
                new CheckpointModel(Variant.RIGHT, rounds, new Faults(crashes, losses, moves, limits, takeOvers));
        assertEquals(Optional.empty(), model.search(outcomes), name);
        assertTrue(outcomes.contains(RoundOutcome.CHECKPOINTED), "the search reaches whole sets");
    }

    @ParameterizedTest
    @CsvSource({
        "CABLE_IN_BEFORE_GO,    1, 0, 0, 0, 0, 0",
        "IMAGE_AFTER_VOID,      1, 0, 0, 0, 1, 0",
        "OUT_TWICE,             1, 0, 0, 0, 1, 0",
        "SET_WITHOUT_ALL,       1, 0, 0, 0, 1, 0",
        "WRITE_WITHOUT_VERSION, 2, 0, 0, 0, 1, 1",
        "GO_WITHOUT_ALL,        1, 0, 0, 0, 0, 0",
        "MOVE_WITHOUT_VOID,     1, 0, 0, 1, 0, 0"
    })
    void shouldFindTheDefectWhenARuleIsBroken(
            Variant broken, int rounds, int crashes, int losses, int moves, int limits, int takeOvers) {
        CheckpointModel model =
                new CheckpointModel(broken, rounds, new Faults(crashes, losses, moves, limits, takeOvers));
        Optional<String> found = model.searchDeep(200, 20_000);
        assertFalse(found.isEmpty(), broken + " is not found in " + model.states() + " states");
    }
}
