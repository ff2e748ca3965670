package io.ppmr.migration.target;

import io.ppmr.linux.config.Key;
import java.time.Duration;
import java.util.List;

/** The rules by which a target takes part in migrations, with their keys. Immutable. */
public record TargetRules(
        @Key(value = "1h", doc = "time limit of a restart", example = "30m")
        Duration restartDeadline,

        @Key(value = "false", doc = "whether processes of root may be restored here", example = "true")
        boolean allowRootJobs,

        @Key(
                value = "false",
                doc = "whether jobs may be restored whose user is not in this node's user database. The target then"
                        + " accepts the group that the source names, unless it is root's",
                example = "true")
        boolean unknownUsers,

        @Key(
                value = "2",
                doc = "number of migrations at a time, each with its own pool",
                example = "4",
                least = 1,
                most = 32)
        int migrations,

        @Key(value = "[]", doc = "checks of ppmr doctor whose failure is only a warning here", example = "[\"cpu\"]")
        List<String> ignoredChecks) {}
