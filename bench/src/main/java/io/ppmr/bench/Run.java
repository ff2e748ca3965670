package io.ppmr.bench;

import com.fasterxml.jackson.annotation.JsonAutoDetect;
import com.fasterxml.jackson.annotation.JsonInclude;
import java.io.IOException;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** One measured run. The measuring code fills in the values. The rest stays null. */
@JsonInclude(JsonInclude.Include.NON_NULL)
@JsonAutoDetect(fieldVisibility = JsonAutoDetect.Visibility.ANY)
final class Run {
    private static final double MIB = 1 << 20;

    final long bytes;
    final double seconds;
    final double mibPerSecond;
    /** The processor time of our processes, both sides together. */
    Double serviceCpuSeconds;
    /** The larger of the two sides'. */
    Long peakRssBytes;
    /** The bytes on the Java heap, by all threads of our processes. */
    Double allocatedBytesPerChunk;
    /**
     * The number of times that a thread of our processes slept and was woken. It counts only threads that live at the
     * end.
     */
    Double wakingsPerChunk;
    /** The calls of read(2), write(2) and their like, by our processes. */
    Double callsPerChunk;

    Double cpuPercent;
    Double wakeupsPerSecond;
    /** The time for which the job was stopped. */
    Double pauseSeconds;
    /** The longest time without an answer for each peer of a pod, by the peer's report. */
    Map<String, Double> longestGapSeconds;
    /** A migration taken apart. */
    Phases more;

    Run(long bytes, double seconds) {
        this.bytes = bytes;
        this.seconds = seconds;
        this.mibPerSecond = bytes / MIB / seconds;
    }

    /**
     * The phases of a migration, with the start and the end of each, in seconds from the order to migrate. Concurrent
     * phases overlap. For a strategy by files, each phase begins at the end of the previous one.
     *
     * @param seconds the whole
     * @param phases by name: suspend, write, transfer, read, reconnect
     * @param overlapSeconds the phases' lengths together, less the whole
     */
    record Phases(String strategy, long bytes, double seconds, Map<String, double[]> phases, double overlapSeconds) {}

    /** A whole migration. */
    static Run migration(
            String strategy, long bytes, double seconds, Map<String, double[]> phases, double pauseSeconds) {
        double sum = phases.values().stream()
                .mapToDouble(phase -> phase[1] - phase[0])
                .sum();
        Run run = new Run(bytes, seconds);
        run.pauseSeconds = pauseSeconds;
        run.more = new Phases(strategy, bytes, seconds, phases, Math.max(0, sum - seconds));
        return run;
    }

    /**
     * A number of bytes and their time, as the programs in C report it.
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
