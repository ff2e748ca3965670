package io.ppmr.cli.service;

import java.time.Duration;
import java.util.List;

/**
 * The health command, as configured.
 *
 * @param command its words; status 0 says that the node is well, 1 to 125 that it is going
 * @param interval between the end of one call and the next
 * @param deadline how long one call may take
 * @param failures how many in a row say that the node is going before a migration starts
 * @param recoveries how many in a row must say that it is well before another can start
 * @param rest how long after one was started no other is
 * @param dryRun whether it only says what it would do
 */
public record HealthSettings(
        List<String> command,
        Duration interval,
        Duration deadline,
        int failures,
        int recoveries,
        Duration rest,
        boolean dryRun) {
    public HealthSettings {
        command = List.copyOf(command);
    }
}
