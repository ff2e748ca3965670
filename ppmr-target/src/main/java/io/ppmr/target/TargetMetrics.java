package io.ppmr.target;

import io.micrometer.core.instrument.Counter;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Timer;
import io.ppmr.protocol.TransferReport;
import io.ppmr.transaction.Outcome;
import java.time.Duration;
import java.util.EnumMap;
import java.util.Map;

/**
 * What a target counts over its life. A transfer counts for itself while it runs, without a shared counter on the data
 * path; its sums are added here when it ends. Safe for any thread.
 */
public final class TargetMetrics {
    /** Every meter, with what it means. */
    public enum Meter {
        COMMITTED("ppmr.target.migrations.committed", "migrations whose ranks run here"),
        ROLLED_BACK("ppmr.target.migrations.rolled_back", "migrations that were given up here"),
        REFUSED("ppmr.target.migrations.refused", "migrations that were not taken"),
        ARRIVED_BYTES("ppmr.target.bytes.arrived", "bytes of images that have arrived"),
        READ_BYTES("ppmr.target.bytes.read", "bytes that restarts have read"),
        STAGED_BYTES("ppmr.target.bytes.staged", "bytes that went to staging"),
        REFUSED_SEEKS("ppmr.target.seeks.refused", "reads of a stream that asked for bytes given away before");

        private final String meterName;
        private final String meaning;

        Meter(String meterName, String meaning) {
            this.meterName = meterName;
            this.meaning = meaning;
        }

        /** The meter's name in the registry. */
        public String meterName() {
            return meterName;
        }
    }

    private final Map<Meter, Counter> counters = new EnumMap<>(Meter.class);
    private final Timer duration;

    public TargetMetrics(MeterRegistry registry) {
        for (Meter meter : Meter.values()) {
            counters.put(
                    meter,
                    Counter.builder(meter.meterName).description(meter.meaning).register(registry));
        }
        duration = Timer.builder("ppmr.target.migration")
                .description("time from accepting a migration to its end")
                .register(registry);
    }

    /** What a meter has counted so far. */
    public double count(Meter meter) {
        return counters.get(meter).count();
    }

    void refused() {
        counters.get(Meter.REFUSED).increment();
    }

    void ended(Outcome outcome, TransferReport transfer, long refusedSeeks, Duration took) {
        Meter result = outcome == Outcome.COMMITTED ? Meter.COMMITTED : Meter.ROLLED_BACK;
        counters.get(result).increment();
        counters.get(Meter.ARRIVED_BYTES).increment((double) transfer.arrivedBytes());
        counters.get(Meter.READ_BYTES).increment((double) transfer.readBytes());
        counters.get(Meter.STAGED_BYTES).increment((double) transfer.stagedBytes());
        counters.get(Meter.REFUSED_SEEKS).increment((double) refusedSeeks);
        duration.record(took);
    }
}
