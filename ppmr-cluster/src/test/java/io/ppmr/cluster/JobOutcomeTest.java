package io.ppmr.cluster;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.ppmr.cluster.job.JobView;
import io.ppmr.daemon.service.ExitCode;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.Test;

class JobOutcomeTest {
    private static JobView ended(JobView.LastView last, JobView.SetView... sets) {
        return new JobView(
                "1000/ring",
                "running",
                1,
                3,
                3,
                Map.of(),
                7,
                2,
                last,
                Map.of(),
                List.of(sets),
                new JobView.ScheduleView("", 0, false, true));
    }

    private static JobView.LastView last(String kind, long number, String outcome, String reason) {
        return new JobView.LastView(
                kind,
                number,
                outcome,
                reason,
                Set.of(),
                new JobView.RestartView(2, "1-7-0a1b2c3d", 35, List.of("n2"), List.of("n4"), 1200, 3400, 500));
    }

    private static JobView.SetView set(long round) {
        return new JobView.SetView("1-" + round + "-0a1b2c3d", 1, round, 2 << 20, 40, 30, 20, 0, "local");
    }

    private static void requireEnd(JobOutcome outcome, ExitCode code, String sentence) {
        assertEquals(code, outcome.exitCode());
        assertEquals(sentence, outcome.sentence());
    }

    @Test
    void shouldNameNodesAndTimesWhenARecoveryEnded() {
        JobView ended = ended(last("restart", 2, "recovered", ""), set(7));
        RecoveryOutcome outcome = RecoveryOutcome.of(ended, JobOutcome.of(ended, true, 2));
        assertEquals(ExitCode.OK, outcome.exitCode());
        assertEquals(
                "job 1000/ring runs again, with the pods of living nodes in their places" + System.lineSeparator()
                        + "from set 1-7-0a1b2c3d, 35 s old; lost: n2; spares: n4; ended in 1.2 s, restored in 3.4 s,"
                        + " released in 0.5 s",
                outcome.sentence());
    }

    @Test
    void shouldNameTheSetWhenACheckpointWroteOne() {
        requireEnd(
                JobOutcome.of(ended(last("checkpoint", 7, "checkpointed", ""), set(6), set(7)), false, 7),
                ExitCode.OK,
                "job 1000/ring: set 1-7-0a1b2c3d, 2.0 MiB; the job was held for 40 ms");
    }

    @Test
    void shouldReportThatTheJobContinuesWhenACheckpointIsVoid() {
        requireEnd(
                JobOutcome.of(ended(last("checkpoint", 7, "void", "node n2 is lost"), set(6)), false, 7),
                ExitCode.ROLLED_BACK,
                "job 1000/ring: no set was written (void), and the job continues: node n2 is lost");
    }

    @Test
    void shouldNameTheSetWhenAnotherCheckpointFollowed() {
        requireEnd(
                JobOutcome.of(ended(last("checkpoint", 8, "void", "node n2 is lost"), set(6), set(7)), false, 7),
                ExitCode.OK,
                "job 1000/ring: set 1-7-0a1b2c3d was written; another checkpoint or restart followed");
    }

    @Test
    void shouldClaimNothingWhenTheResultOfACheckpointIsNotKnown() {
        requireEnd(
                JobOutcome.of(ended(last("checkpoint", 8, "checkpointed", ""), set(8)), false, 7),
                ExitCode.FAILED,
                "job 1000/ring: another checkpoint or restart followed, so the result of this one is not known. Remedy:"
                        + " ppmr job show 1000/ring");
    }

    @Test
    void shouldClaimNothingWhenTheResultOfARestartIsNotKnown() {
        requireEnd(
                JobOutcome.of(ended(last("restart", 3, "restarted", ""), set(2)), true, 2),
                ExitCode.FAILED,
                "job 1000/ring: another checkpoint or restart followed, so the result of this one is not known. Remedy:"
                        + " ppmr job show 1000/ring");
    }

    @Test
    void shouldReportThatNothingRunsWhenARestartFailed() {
        requireEnd(
                JobOutcome.of(ended(last("restart", 2, "failed", "node n2 is lost"), set(2)), true, 2),
                ExitCode.FAILED,
                "job 1000/ring was not restarted, and nothing of it runs: node n2 is lost");
    }
}
