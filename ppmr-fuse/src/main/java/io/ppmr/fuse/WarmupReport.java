package io.ppmr.fuse;

/**
 * What a warm-up did. Rates are of whole rounds with the start of their processes, so they compare with each other,
 * not with a benchmark.
 *
 * @param bytes bytes that went through the mount
 * @param elapsedNs time that it took
 * @param firstMiBPerS rate of the first round of large requests
 * @param lastMiBPerS rate of the last one
 * @param complete false where the time was up, or the directory did not take the I/O
 * @param remark why it is not complete; empty otherwise
 */
public record WarmupReport(
        long bytes, long elapsedNs, double firstMiBPerS, double lastMiBPerS, boolean complete, String remark) {}
