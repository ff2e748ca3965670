package io.ppmr.migration.source;

import io.ppmr.os.config.Key;
import io.ppmr.os.config.Section;
import java.time.Duration;

/** The limits of each of a source's migrations, with their keys. Immutable. */
@Section(name = "migration", doc = "Bounds of a migration.")
public record MigrationLimits(
        @Key(value = "1h", doc = "how long a checkpoint may take in all", example = "30m")
        Duration checkpointDeadline,

        @Key(
                value = "10m",
                doc = "how long after a failure checkpointers that write from inside their processes may go on, while"
                        + " what they write is thrown away; past it they are ended, and their writes fail",
                example = "5m")
        Duration discardDeadline,

        @Key(
                value = "2m",
                doc = "how long a target that is lost after the originals ended is sought, to be told to go on",
                example = "5m")
        Duration decisionDeadline,

        @Key(
                value = "10m",
                doc = "how long a job may be stopped; past it the migration is rolled back, unless a target has"
                        + " voted",
                example = "30m")
        Duration pauseBudget,

        @Key(value = "3", doc = "how many targets are tried in all", example = "5", least = 1, most = 100)
        int attempts,

        @Key(
                value = "1m",
                doc = "how many bytes a second the checkpoints of a job write at least, counted over any 30 s in"
                        + " which they could write and do not wait for the network or the target; below it the"
                        + " migration fails, 0 is no bound",
                example = "8m")
        long minRate) {}
