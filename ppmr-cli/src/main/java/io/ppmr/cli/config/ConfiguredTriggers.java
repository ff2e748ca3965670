package io.ppmr.cli.config;

import io.ppmr.cli.service.HealthSettings;
import java.time.Duration;
import java.util.List;
import java.util.Optional;

/** Reads {@code [triggers]}. */
final class ConfiguredTriggers {
    private ConfiguredTriggers() {}

    /** The health command, where one is configured; meaningless where the file has mistakes. */
    static Optional<HealthSettings> health(ConfigFile file) {
        ConfigFile.Section section = file.section(SourceKeys.TRIGGERS);
        List<String> command = section.get(SourceKeys.HEALTH);
        Duration interval = section.get(SourceKeys.HEALTH_INTERVAL);
        Duration deadline = section.get(SourceKeys.HEALTH_DEADLINE);
        Integer failures = section.get(SourceKeys.HEALTH_FAILURES);
        Integer recoveries = section.get(SourceKeys.HEALTH_RECOVERIES);
        Duration rest = section.get(SourceKeys.HEALTH_REST);
        Boolean dryRun = section.get(SourceKeys.HEALTH_DRY_RUN);
        if (command != null && command.isEmpty()) {
            section.bad(SourceKeys.HEALTH, "is empty: name the command, such as [\"/usr/sbin/nhc\"], or take it out");
        }
        boolean complete = interval != null
                && deadline != null
                && failures != null
                && recoveries != null
                && rest != null
                && dryRun != null;
        return command == null || !complete
                ? Optional.empty()
                : Optional.of(new HealthSettings(command, interval, deadline, failures, recoveries, rest, dryRun));
    }
}
