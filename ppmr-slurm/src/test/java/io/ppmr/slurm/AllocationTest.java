package io.ppmr.slurm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.ppmr.daemon.service.CommandFailure;
import io.ppmr.slurm.SlurmRun.Allocation;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class AllocationTest {
    private static final Map<String, String> FOUR_A_NODE = Map.of("SLURM_NTASKS_PER_NODE", "4");

    @Test
    void shouldKeepTheBatchHostSpareWhenTheOthersCompute() throws Exception {
        assertEquals(
                new Allocation("7", List.of("n0"), List.of("n1", "n2"), 8),
                Allocation.of("7", List.of("n0", "n1", "n2"), 1, null, FOUR_A_NODE));
        assertEquals(
                new Allocation("7", List.of("n0", "n1"), List.of("n2"), 3),
                Allocation.of("7", List.of("n0", "n1", "n2"), 2, 3, Map.of()));
    }

    @Test
    void shouldSayWhatToAskForWhenTheAllocationDoesNotFit() {
        for (var wrong : List.of(
                new Wanted(List.of("n0"), 1, 4, "one node"),
                new Wanted(List.of("n0", "n1"), 0, 4, "--spares of at least 1"),
                new Wanted(List.of("n0", "n1"), 1, null, "--ntasks-per-node"),
                new Wanted(List.of("n0", "n1", "n2"), 1, 1, "raise --spares"))) {
            CommandFailure failure = assertThrows(
                    CommandFailure.class, () -> Allocation.of("7", wrong.nodes, wrong.spares, wrong.tasks, Map.of()));
            assertEquals(true, failure.getMessage().contains(wrong.remedy), failure.getMessage());
        }
    }

    private record Wanted(List<String> nodes, int spares, Integer tasks, String remedy) {}
}
