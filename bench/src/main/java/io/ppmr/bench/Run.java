package io.ppmr.bench;

import com.fasterxml.jackson.annotation.JsonInclude;

/**
 * One measured run.
 *
 * @param serviceCpuSeconds processor time of our processes, both sides together
 * @param peakRssBytes the larger of the two sides'
 * @param allocatedBytesPerChunk on the Java heap, by all threads of our processes; null where it was not measured
 */
@JsonInclude(JsonInclude.Include.NON_NULL)
record Run(
        long bytes,
        double seconds,
        double mibPerSecond,
        Double serviceCpuSeconds,
        Long peakRssBytes,
        Double allocatedBytesPerChunk,
        Double cpuPercent,
        Double wakeupsPerSecond,
        Object more) {

    static Run of(Span span, double cpuSeconds, long peakRssBytes, Double allocatedBytesPerChunk) {
        return new Run(
                span.bytes(),
                span.seconds(),
                span.mibPerSecond(),
                cpuSeconds,
                peakRssBytes,
                allocatedBytesPerChunk,
                null,
                null,
                null);
    }
}
