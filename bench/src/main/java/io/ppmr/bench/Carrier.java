package io.ppmr.bench;

import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;

/**
 * What chunks cross on from a benchmark's source to its target, and B: what that can carry at most.
 *
 * @param device for the result
 * @param settings for the result, beside the transport's name
 * @param targetWords what the target is told when it is started: the transport and the address at which it listens
 * @param limitName whose figure B is
 * @param limit B, measured at each call, in MiB/s
 */
record Carrier(
        String device,
        Map<String, Object> settings,
        List<String> targetWords,
        String limitName,
        Callable<Double> limit) {

    /** TCP over the loopback device. */
    static Carrier tcp(StageOptions options) {
        return new Carrier(
                "TCP over loopback",
                Map.of("connections", options.connections),
                List.of(StageOptions.TCP, "127.0.0.1"),
                "sender and receiver in C with CRC32C at both ends",
                () -> Programs.limit(options, "net", options.connections, "--crc"));
    }
}
