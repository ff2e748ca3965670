package io.ppmr.bench;

import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * So many bytes in a time, as the programs in C report it.
 *
 * @param startNs by CLOCK_MONOTONIC, which all processes of the machine share
 */
record Span(long bytes, long startNs, long endNs) {
    private static final Pattern REPORT = Pattern.compile("bytes=(\\d+) startNs=(\\d+) endNs=(\\d+)");
    private static final double NS_A_SECOND = 1e9;
    private static final double MIB = 1 << 20;

    static Span parse(String output) throws BenchFailure {
        Matcher report = REPORT.matcher(output);
        if (!report.find()) {
            throw new BenchFailure("no figures in what a program printed: " + output.strip());
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
