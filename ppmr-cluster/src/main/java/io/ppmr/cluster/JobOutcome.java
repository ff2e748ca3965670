package io.ppmr.cluster;

import com.fasterxml.jackson.databind.PropertyNamingStrategies;
import com.fasterxml.jackson.databind.annotation.JsonNaming;
import io.ppmr.cluster.job.JobView;
import io.ppmr.cluster.job.JobView.SetView;
import io.ppmr.daemon.service.ExitCode;
import java.util.Locale;
import java.util.Optional;

/**
 * The end of a checkpoint or of a restart, as {@code ppmr job} prints it. It is immutable.
 *
 * @param job the job
 * @param set the set; empty if there is none
 * @param outcome checkpointed, void, refused, restarted, recovered, waiting, failed or superseded
 * @param reason its cause; empty if it was successful
 * @param heldMs the longest time for which a member was held
 * @param dumpMs the longest time of a dump
 * @param syncMs the longest time until images were on the disk
 * @param bytes the size of the set
 */
@JsonNaming(PropertyNamingStrategies.SnakeCaseStrategy.class)
record JobOutcome(
        String job, String set, String outcome, String reason, long heldMs, long dumpMs, long syncMs, long bytes) {
    private static final double MIB = 1 << 20;
    /** The job's record has only its last checkpoint or restart, and that is a later one. */
    private static final String SUPERSEDED = "superseded";
    /** Begun, and some node must end, or answer, before it continues. */
    private static final String WAITING = "waiting";

    /**
     * Returns the end of a checkpoint or restart.
     *
     * @param ended the job when it had ended
     * @param isRestart true for a restart
     * @param number the number of the checkpoint or restart
     */
    static JobOutcome of(JobView ended, boolean isRestart, long number) {
        JobView.LastView last = ended.last();
        boolean isMine = last.number() == number;
        Optional<SetView> set = ended.sets().stream()
                .filter(one -> !isRestart && one.round() == number)
                .findFirst();
        return new JobOutcome(
                ended.job(),
                set.map(SetView::set).orElse(""),
                isMine ? last.outcome() : SUPERSEDED,
                isMine ? last.reason() : "another checkpoint or restart followed",
                set.map(SetView::heldMs).orElse(0L),
                set.map(SetView::dumpMs).orElse(0L),
                set.map(SetView::syncMs).orElse(0L),
                set.map(SetView::bytes).orElse(0L));
    }

    /** Returns the state of a recovery that is not over. */
    static JobOutcome waiting(JobView now) {
        String nodes = String.join(", ", now.last().waitsFor());
        return new JobOutcome(
                now.job(),
                "",
                WAITING,
                "its recovery is in phase " + now.phase() + ", and waits for " + nodes + ". Remedy: start the services"
                        + " of these nodes; or end such a node, then type on the active controller's node: ppmr nodes"
                        + " off NODE. The recovery then continues",
                0,
                0,
                0,
                0);
    }

    /** Returns the exit code of the command. A set that was written counts, whatever followed. */
    ExitCode exitCode() {
        return switch (outcome) {
            case "checkpointed", "restarted", "recovered" -> ExitCode.OK;
            case WAITING -> ExitCode.IN_DOUBT;
            case "void" -> ExitCode.ROLLED_BACK;
            case "refused" -> ExitCode.REFUSED;
            default -> set.isEmpty() ? ExitCode.FAILED : ExitCode.OK;
        };
    }

    /** Returns the outcome as one line. */
    String sentence() {
        return switch (outcome) {
            case "checkpointed" ->
                String.format(
                        Locale.ROOT,
                        "job %s: set %s, %.1f MiB; the job was held for %d ms",
                        job,
                        set,
                        bytes / MIB,
                        heldMs);
            case "restarted" -> "job " + job + " runs again";
            case "recovered" -> "job " + job + " runs again, with the pods of living nodes in their places";
            case WAITING -> "job " + job + " is stopped: " + reason;
            case "failed" -> "job " + job + " was not restarted, and nothing of it runs: " + reason;
            case SUPERSEDED ->
                set.isEmpty()
                        ? "job " + job + ": another checkpoint or restart followed, so the result of this one is not"
                                + " known. Remedy: ppmr job show " + job
                        : "job " + job + ": set " + set + " was written; another checkpoint or restart followed";
            default -> "job " + job + ": no set was written (" + outcome + "), and the job continues: " + reason;
        };
    }
}
