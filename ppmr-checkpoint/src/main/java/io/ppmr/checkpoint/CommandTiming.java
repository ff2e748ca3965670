package io.ppmr.checkpoint;

import java.time.Duration;

/**
 * How long the adapters wait for things that normally take moments.
 *
 * @param cancelGrace how long a cancelled tool has to end by itself; its I/O fails meanwhile
 * @param terminateGrace how long it has after SIGTERM, before SIGKILL
 * @param holdProof within what time all processes must be stopped after the tool has reported success
 * @param rollback within what time the originals must run again after a failed checkpoint, and what a failed restart
 *     restored must be gone
 */
public record CommandTiming(Duration cancelGrace, Duration terminateGrace, Duration holdProof, Duration rollback) {

    public static CommandTiming defaults() {
        return new CommandTiming(
                Duration.ofSeconds(10), Duration.ofSeconds(5), Duration.ofSeconds(10), Duration.ofSeconds(10));
    }
}
