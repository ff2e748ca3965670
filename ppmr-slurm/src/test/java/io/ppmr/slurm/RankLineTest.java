package io.ppmr.slurm;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.ppmr.slurm.SlurmRun.RankLine;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;

class RankLineTest {
    @Test
    void shouldReadWhatATaskSaysWhenItIsWellFormed() {
        assertEquals(
                Optional.of(new RankLine.RankStarted(3, "slurm-7.0", "n1")),
                RankLine.parse("ppmr-rank 3 started slurm-7.0 n1"));
        assertEquals(
                Optional.of(new RankLine.Moved(0, "192.0.2.20:7411", List.of(12, 13))),
                RankLine.parse("ppmr-rank 0 moved 192.0.2.20:7411 12,13"));
        assertEquals(Optional.of(new RankLine.RankEnded(1, 137, true)), RankLine.parse("ppmr-rank 1 ended 137"));
        assertEquals(Optional.of(new RankLine.RankEnded(1, 75, false)), RankLine.parse("ppmr-rank 1 unknown 75"));
        assertEquals(Optional.of(new RankLine.RankKept(2)), RankLine.parse("ppmr-rank 2 kept 4711"));
    }

    @Test
    void shouldLeaveALineToTheReaderWhenItIsNoneOfATask() {
        for (String line : List.of(
                "srun: error: n1: task 0: Exited with exit code 1",
                "ppmr-rank x ended 0",
                "ppmr-rank 1 ended",
                "ppmr-rank 1 ended soon",
                "ppmr-rank 1 moved there",
                "ppmr-rank 1 moved there 12,",
                "ppmr-rank 1 sings",
                " ppmr-rank 1 ended 0",
                "")) {
            assertEquals(Optional.empty(), RankLine.parse(line), line);
        }
    }
}
