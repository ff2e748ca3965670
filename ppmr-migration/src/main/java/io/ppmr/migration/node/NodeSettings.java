package io.ppmr.migration.node;

import io.ppmr.os.config.Key;
import java.nio.file.Path;
import java.time.Duration;

/** The settings that a source's and a target's service have in common, with their keys. Immutable. */
public record NodeSettings(
        @Key(
                doc = "the folder at which the images are mounted; it is made if it is missing",
                example = "/var/lib/ppmr/images")
        Path mount,

        @Key(
                value = "/var/lib/ppmr/work",
                doc = "directory of the checkpointers' logs and PID files; outside the mount, on a local"
                        + " disk; no user may be able to change a name in its path",
                example = "/local/ppmr/work")
        Path workDirectory,

        @Key(
                value = "15s",
                doc = "time without any frame after which the peer counts as lost (heartbeat: 1 s)",
                example = "30s")
        Duration silenceLimit) {}
