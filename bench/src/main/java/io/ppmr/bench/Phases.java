package io.ppmr.bench;

import com.fasterxml.jackson.annotation.JsonInclude;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * A migration taken apart: when each phase began and ended, in seconds from the order to migrate. Phases that run at
 * once overlap; for a strategy by files each begins where the one before it ends.
 *
 * @param seconds the whole
 * @param phases by name: suspend, write, transfer, read, reconnect
 * @param overlapSeconds the phases' lengths together, less the whole
 */
@JsonInclude(JsonInclude.Include.NON_NULL)
record Phases(String strategy, long bytes, double seconds, Map<String, double[]> phases, double overlapSeconds) {
    private static final double MIB = 1 << 20;

    static Phases of(String strategy, long bytes, double seconds, Map<String, double[]> phases) {
        double sum = phases.values().stream()
                .mapToDouble(phase -> phase[1] - phase[0])
                .sum();
        return new Phases(strategy, bytes, seconds, new LinkedHashMap<>(phases), Math.max(0, sum - seconds));
    }

    double mibPerSecond() {
        return bytes / MIB / seconds;
    }

    Run run(Double cpuSeconds, Long peakRssBytes) {
        return new Run(bytes, seconds, mibPerSecond(), cpuSeconds, peakRssBytes, null, null, null, this);
    }
}
