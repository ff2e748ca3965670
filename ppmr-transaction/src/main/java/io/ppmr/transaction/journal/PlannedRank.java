package io.ppmr.transaction.journal;

import io.ppmr.linux.ProcessIdentity;
import java.util.List;

/**
 * One rank of a plan.
 *
 * @param rank its number in the job
 * @param participant target that receives it
 * @param processes originals at the source, or copies at a target, or empty if they are not known yet
 */
public record PlannedRank(int rank, String participant, List<ProcessIdentity> processes) {
    public PlannedRank {
        processes = List.copyOf(processes);
    }
}
