package io.ppmr.tracing;

import io.micrometer.core.instrument.Counter;
import io.micrometer.core.instrument.MeterRegistry;

/** The meters of traces. They are safe for any thread. */
final class TraceMeters {
    private static final String NAME = "ppmr.traces";
    private static final String MEANING = "traces of migrations, by what became of them: sent, or dropped because the"
            + " collector did not take them in time";

    private final Counter sent;
    private final Counter dropped;

    TraceMeters(MeterRegistry meters) {
        sent = counter(meters, "sent");
        dropped = counter(meters, "dropped");
    }

    private static Counter counter(MeterRegistry meters, String result) {
        return Counter.builder(NAME).tag("result", result).description(MEANING).register(meters);
    }

    void sent() {
        sent.increment();
    }

    void dropped() {
        dropped.increment();
    }

    long countSent() {
        return (long) sent.count();
    }

    long countDropped() {
        return (long) dropped.count();
    }
}
