package io.ppmr.migration.source;

import io.ppmr.linux.config.Key;
import io.ppmr.linux.config.Section;
import java.time.Duration;

/** The limits of each of a source's migrations, with their keys. Immutable. */
@Section(name = "migration", doc = "Limits of a migration.")
public record MigrationLimits(
        @Key(value = "1h", doc = "time limit of a checkpoint", example = "30m")
        Duration checkpointDeadline,

        @Key(
                value = "10m",
                doc = "time limit, after a failure, of checkpointers that write from inside their processes. Until"
                        + " then their writes succeed and are discarded. Then they are ended, and their writes fail",
                example = "5m")
        Duration discardDeadline,

        @Key(
                value = "2m",
                doc = "how long the source tries to reach a target that it lost after the originals ended, to"
                        + " deliver the decision",
                example = "5m")
        Duration decisionDeadline,

        @Key(
                value = "10m",
                doc = "time for which a job may be stopped. After it the migration is rolled back, unless a target"
                        + " has voted",
                example = "30m")
        Duration pauseBudget,

        @Key(value = "3", doc = "number of targets that a migration tries", example = "5", least = 1, most = 100)
        int attempts,

        @Key(
                value = "1m",
                doc = "minimum write rate of a job's checkpoints, in bytes a second, over any 30 s. Time in which"
                        + " they wait for the network or the target does not count. Below it the migration fails."
                        + " 0: no minimum",
                example = "8m")
        long minRate,

        @Key(
                value = "1s",
                doc = "the pause that is short enough. Memory of a running job is copied until the expected pause is"
                        + " this short. With pages = \"auto\" a job whose streamed pause is expected to be this"
                        + " short is streamed",
                example = "500ms")
        Duration pauseGoal,

        @Key(
                value = "10m",
                doc = "time limit of the copy of a running job's memory. After it the job is stopped, and the rest"
                        + " is sent",
                example = "2m")
        Duration precopyDeadline,

        @Key(
                value = "30",
                doc = "maximum number of rounds in which a running job's memory is copied",
                example = "5",
                least = 1,
                most = 1000)
        int precopyRounds) {
    private static final Duration USUAL_GOAL = Duration.ofSeconds(1);
    private static final Duration USUAL_PRECOPY = Duration.ofMinutes(10);
    private static final int USUAL_ROUNDS = 30;

    /** Makes limits with the default ones for the copy of a running job's memory. */
    public MigrationLimits(
            Duration checkpointDeadline,
            Duration discardDeadline,
            Duration decisionDeadline,
            Duration pauseBudget,
            int attempts,
            long minRate) {
        this(
                checkpointDeadline,
                discardDeadline,
                decisionDeadline,
                pauseBudget,
                attempts,
                minRate,
                USUAL_GOAL,
                USUAL_PRECOPY,
                USUAL_ROUNDS);
    }
}
