package io.ppmr.linux;

import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.LongSupplier;

/**
 * Limits the rate of log lines that a peer can cause any number of times. The first line of a kind is written at once.
 * During the next minute further lines of that kind are only counted, and the line after that contains the count. So
 * each kind writes at most one line a minute. Safe for any thread.
 */
public final class RareLog {
    private static final long INTERVAL_NS = TimeUnit.MINUTES.toNanos(1);

    private final Consumer<String> out;
    private final LongSupplier clockNs;
    /**
     * Per kind: the time at which the next line may be written, and the number of suppressed lines. The values are
     * plain arrays, because no class can be loaded when descriptors are exhausted.
     */
    private final Map<String, long[]> kinds = new HashMap<>();

    /**
     * Creates an empty log.
     *
     * @param out writes a line
     */
    public RareLog(Consumer<String> out) {
        this(out, System::nanoTime);
    }

    RareLog(Consumer<String> out, LongSupplier clockNs) {
        this.out = out;
        this.clockNs = clockNs;
    }

    /**
     * Writes the line, or counts it.
     *
     * @param kind one of a few fixed names. Each is stored permanently, so it must not contain data from a peer
     */
    public synchronized void write(String kind, String line) {
        long nowNs = clockNs.getAsLong();
        long[] entry = kinds.get(kind);
        if (entry != null && nowNs - entry[0] < 0) {
            entry[1]++;
            return;
        }
        out.accept(
                entry == null || entry[1] == 0
                        ? line
                        : line + " (" + entry[1] + " more of this kind were suppressed since the last such line)");
        kinds.put(kind, new long[] {nowNs + INTERVAL_NS, 0});
    }
}
