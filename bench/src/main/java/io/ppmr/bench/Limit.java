package io.ppmr.bench;

import java.util.List;

/**
 * What a result is held against.
 *
 * @param runs the limit's own runs, measured in turn with ours
 */
record Limit(String name, double mibPerSecond, double ratio, List<Double> runs) {}
