package io.ppmr.migration.node;

import io.ppmr.linux.config.Key;
import java.nio.file.Path;
import java.time.Duration;

/** The settings that a source's and a target's service have in common, with their keys. Immutable. */
public record NodeSettings(
        @Key(
                doc = "the directory at which the images are mounted. The service creates it if it is missing",
                example = "/var/lib/ppmr/images")
        Path mount,

        @Key(
                value = "/var/lib/ppmr/work",
                doc = "the directory for logs and PID files of the checkpointers' commands, outside of the mount,"
                        + " on a local disk. No user may be able to rename any part of its path",
                example = "/local/ppmr/work")
        Path workDirectory,

        @Key(
                value = "15s",
                doc = "time without any frame after which the peer counts as lost (heartbeat: 1 s)",
                example = "30s")
        Duration silenceLimit) {}
