package io.ppmr.migration.source;

import io.ppmr.os.config.Key;
import io.ppmr.os.config.Section;
import java.time.Duration;

/** The limits of each of a source's migrations, with their keys. Immutable. */
@Section(name = "migration", doc = "Bounds of a migration.")
public record MigrationLimits(
        @Key(value = "1h", doc = "time limit of a checkpoint", example = "30m")
        Duration checkpointDeadline,

        @Key(
                value = "10m",
                doc = "time after a failure in which checkpointers that write from inside their processes may"
                        + " end by themselves, while their writes are discarded; then they are killed and writes fail",
                example = "5m")
        Duration discardDeadline,

        @Key(
                value = "2m",
                doc = "time for which an unreachable target is contacted after the originals ended, so that it"
                        + " continues the copies",
                example = "5m")
        Duration decisionDeadline,

        @Key(
                value = "10m",
                doc = "time for which a job may be stopped; after it the migration is rolled back, unless a target"
                        + " has voted",
                example = "30m")
        Duration pauseBudget,

        @Key(value = "3", doc = "number of targets that are tried", example = "5", least = 1, most = 100)
        int attempts,

        @Key(
                value = "1m",
                doc = "bytes per second that the checkpoints of a job must write, measured over 30 s in which they"
                        + " do not wait for the network or the target; below it the migration fails; 0: no limit",
                example = "8m")
        long minRate) {}
