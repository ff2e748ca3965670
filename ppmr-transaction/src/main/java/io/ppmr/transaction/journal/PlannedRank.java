package io.ppmr.transaction.journal;

import io.ppmr.os.ProcessIdentity;
import java.util.List;

/**
 * One rank of a plan.
 *
 * @param rank its number in the job
 * @param participant the target that takes it
 * @param processes the originals at the source, or the copies at a target; empty where they are not known yet
 */
public record PlannedRank(int rank, String participant, List<ProcessIdentity> processes) {
    public PlannedRank {
        processes = List.copyOf(processes);
    }
}
