package io.ppmr.tracing;

import java.util.Map;

/**
 * A span of a migration's trace. Immutable.
 *
 * @param key the span among those of the migration; both nodes derive the same identifier from it
 * @param parent the key of the span around it, or empty for the whole migration
 * @param failure the reason if it failed, or empty
 */
record PlannedSpan(
        String key,
        String parent,
        String name,
        long startEpochMs,
        long endEpochMs,
        String failure,
        Map<String, Long> numbers,
        Map<String, String> texts) {
    PlannedSpan {
        numbers = Map.copyOf(numbers);
        texts = Map.copyOf(texts);
    }

    PlannedSpan(String key, String parent, String name, long startEpochMs, long endEpochMs) {
        this(key, parent, name, startEpochMs, Math.max(startEpochMs, endEpochMs), "", Map.of(), Map.of());
    }
}
