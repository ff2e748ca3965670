package io.ppmr.os;

import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.LongSupplier;

/**
 * Log lines that a peer can cause any number of times. The first line of a kind is written at once; for the next minute
 * further lines of that kind are only counted, and the line after that says how many were left out. So the log grows by
 * one line a minute and kind at most. Safe for any thread.
 */
public final class RareLog {
    private static final long INTERVAL_NS = TimeUnit.MINUTES.toNanos(1);

    private final Consumer<String> out;
    private final LongSupplier clockNs;
    /**
     * Of each kind: when the next line is due, and how many were left out. Plain numbers, as no class can be loaded now
     * where descriptors have run out.
     */
    private final Map<String, long[]> kinds = new HashMap<>();

    /**
     * A log with nothing written yet.
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
     * @param kind one of a few fixed names: each is remembered for good, so nothing that a peer has sent may be in it
     */
    public synchronized void say(String kind, String line) {
        long nowNs = clockNs.getAsLong();
        long[] known = kinds.get(kind);
        if (known != null && nowNs - known[0] < 0) {
            known[1]++;
            return;
        }
        out.accept(
                known == null || known[1] == 0
                        ? line
                        : line + " (" + known[1] + " more of this kind since the last such line were not logged)");
        kinds.put(kind, new long[] {nowNs + INTERVAL_NS, 0});
    }
}
