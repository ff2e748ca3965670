package io.ppmr.bench;

import com.fasterxml.jackson.annotation.JsonInclude;
import java.io.IOException;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * One measured run.
 *
 * @param serviceCpuSeconds processor time of our processes, both sides together
 * @param peakRssBytes the larger of the two sides'
 * @param allocatedBytesPerChunk on the Java heap, by all threads of our processes; null where it was not measured
 * @param wakingsPerChunk how often a thread of our processes went to sleep and was woken; of those that live at the end
 * @param callsPerChunk of read(2), write(2) and their like, by our processes
 * @param pauseSeconds for how long the job stood still
 * @param longestGapSeconds for how long each peer of a pod was without an answer at most, by what is told of the peer
 * @param more a migration taken apart
 */
@JsonInclude(JsonInclude.Include.NON_NULL)
record Run(
        long bytes,
        double seconds,
        double mibPerSecond,
        Double serviceCpuSeconds,
        Long peakRssBytes,
        Double allocatedBytesPerChunk,
        Double wakingsPerChunk,
        Double callsPerChunk,
        Double cpuPercent,
        Double wakeupsPerSecond,
        Double pauseSeconds,
        Map<String, Double> longestGapSeconds,
        Phases more) {
    private static final double MIB = 1 << 20;

    /**
     * A migration taken apart: when each phase began and ended, in seconds from the order to migrate. Phases that run
     * at once overlap; for a strategy by files each begins where the one before it ends.
     *
     * @param seconds the whole
     * @param phases by name: suspend, write, transfer, read, reconnect
     * @param overlapSeconds the phases' lengths together, less the whole
     */
    record Phases(String strategy, long bytes, double seconds, Map<String, double[]> phases, double overlapSeconds) {}

    static Run of(
            Span span,
            double cpuSeconds,
            long peakRssBytes,
            double allocatedBytesPerChunk,
            double wakingsPerChunk,
            double callsPerChunk) {
        return new Run(
                span.bytes(),
                span.seconds(),
                span.mibPerSecond(),
                cpuSeconds,
                peakRssBytes,
                allocatedBytesPerChunk,
                wakingsPerChunk,
                callsPerChunk,
                null,
                null,
                null,
                null,
                null);
    }

    /** The same of a pod with peers. */
    Run withGaps(Map<String, Double> gaps) {
        return new Run(
                bytes,
                seconds,
                mibPerSecond,
                serviceCpuSeconds,
                peakRssBytes,
                allocatedBytesPerChunk,
                wakingsPerChunk,
                callsPerChunk,
                cpuPercent,
                wakeupsPerSecond,
                pauseSeconds,
                gaps,
                more);
    }

    /** A whole migration; the two before the last may be null. */
    static Run migration(
            String strategy,
            long bytes,
            double seconds,
            Map<String, double[]> phases,
            Double cpuSeconds,
            Long peakRssBytes,
            double pauseSeconds) {
        double sum = phases.values().stream()
                .mapToDouble(phase -> phase[1] - phase[0])
                .sum();
        Phases more = new Phases(strategy, bytes, seconds, phases, Math.max(0, sum - seconds));
        return new Run(
                bytes,
                seconds,
                bytes / MIB / seconds,
                cpuSeconds,
                peakRssBytes,
                null,
                null,
                null,
                null,
                null,
                pauseSeconds,
                null,
                more);
    }

    /** Services that had nothing to do. */
    static Run idle(double seconds, double cpuPercent, double wakeupsPerSecond, long peakRssBytes) {
        return new Run(
                0, seconds, 0, null, peakRssBytes, null, null, null, cpuPercent, wakeupsPerSecond, null, null, null);
    }

    /**
     * So many bytes in a time, as the programs in C report it.
     *
     * @param startNs by CLOCK_MONOTONIC, which all processes of the machine share
     */
    record Span(long bytes, long startNs, long endNs) {
        private static final Pattern REPORT = Pattern.compile("bytes=(\\d+) startNs=(\\d+) endNs=(\\d+)");
        private static final double NS_A_SECOND = 1e9;
        private static final double MIB = 1 << 20;

        static Span parse(String output) throws IOException {
            Matcher report = REPORT.matcher(output);
            if (!report.find()) {
                throw new IOException("no figures in what a program printed: " + output.strip());
            }
            return new Span(
                    Long.parseLong(report.group(1)), Long.parseLong(report.group(2)), Long.parseLong(report.group(3)));
        }

        double seconds() {
            return (endNs - startNs) / NS_A_SECOND;
        }

        double mibPerSecond() {
            return bytes / MIB / seconds();
        }
    }
}
