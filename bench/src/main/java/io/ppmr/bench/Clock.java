package io.ppmr.bench;

import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Notes the ends of a strategy's phases, each of which begins at the end of the previous one. The time between an end
 * and {@link #resume} is not counted. It is for one thread.
 */
final class Clock {
    private static final double NS_A_SECOND = 1e9;

    private final Map<String, double[]> phases = new LinkedHashMap<>();
    private long sinceNs = System.nanoTime();
    private double soFar;

    void ends(String phase) {
        double length = (System.nanoTime() - sinceNs) / NS_A_SECOND;
        phases.put(phase, new double[] {soFar, soFar + length});
        soFar += length;
        resume();
    }

    void resume() {
        sinceNs = System.nanoTime();
    }

    Run run(String strategy, long bytes) {
        // The job is stopped from the beginning to the end.
        return Run.migration(strategy, bytes, soFar, phases, soFar);
    }
}
