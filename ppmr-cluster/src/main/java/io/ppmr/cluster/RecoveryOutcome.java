package io.ppmr.cluster;

import com.fasterxml.jackson.databind.PropertyNamingStrategies;
import com.fasterxml.jackson.databind.annotation.JsonNaming;
import io.ppmr.cluster.job.JobView;
import io.ppmr.cluster.job.JobView.RestartView;
import io.ppmr.daemon.service.ExitCode;
import java.util.List;
import java.util.Locale;

/**
 * The end of a recovery, as {@code ppmr job recover} prints it. It is immutable.
 *
 * @param job the job
 * @param outcome recovered, waiting, failed or superseded
 * @param reason its cause; empty if it was successful
 * @param set the set; empty if it is unknown, since another controller has carried it out
 * @param incarnation how often the job was started
 * @param lostWorkS the age of the set when the recovery began, in seconds
 * @param lost the nodes that were off, with pods of the job
 * @param spares the nodes that had no pods of the job before
 * @param endMs how long pods of living nodes took to end, in milliseconds
 * @param restoreMs how long all pods took until they were restored and held, in milliseconds
 * @param releaseMs how long all nodes took to let them run, in milliseconds
 */
@JsonNaming(PropertyNamingStrategies.SnakeCaseStrategy.class)
record RecoveryOutcome(
        String job,
        String outcome,
        String reason,
        String set,
        long incarnation,
        long lostWorkS,
        List<String> lost,
        List<String> spares,
        long endMs,
        long restoreMs,
        long releaseMs) {
    private static final double SECOND = 1000;

    /** Returns the outcome with what the controller knows of the job. */
    static RecoveryOutcome of(JobView job, JobOutcome outcome) {
        RestartView restart = job.last().restart();
        return new RecoveryOutcome(
                outcome.job(),
                outcome.outcome(),
                outcome.reason(),
                restart.set(),
                job.incarnation(),
                restart.lostWorkS(),
                restart.lost(),
                restart.spares(),
                restart.endMs(),
                restart.restoreMs(),
                restart.releaseMs());
    }

    private JobOutcome base() {
        return new JobOutcome(job, "", outcome, reason, 0, 0, 0, 0);
    }

    ExitCode exitCode() {
        return base().exitCode();
    }

    /** Returns the outcome as lines. */
    String sentence() {
        RestartView restart = new RestartView(1, set, lostWorkS, lost, spares, endMs, restoreMs, releaseMs);
        return base().sentence() + (set.isEmpty() ? "" : System.lineSeparator() + times(restart));
    }

    /** Returns nodes and times of a restart or recovery as one line. */
    static String times(RestartView restart) {
        return String.format(
                Locale.ROOT,
                "from set %s, %d s old; lost: %s; spares: %s; ended in %.1f s, restored in %.1f s, released in %.1f s",
                restart.set(),
                restart.lostWorkS(),
                names(restart.lost()),
                names(restart.spares()),
                restart.endMs() / SECOND,
                restart.restoreMs() / SECOND,
                restart.releaseMs() / SECOND);
    }

    private static String names(List<String> hosts) {
        return hosts.isEmpty() ? "none" : String.join(", ", hosts);
    }
}
