package io.ppmr.source.metrics;

import jdk.jfr.Category;
import jdk.jfr.Description;
import jdk.jfr.Event;
import jdk.jfr.Label;
import jdk.jfr.Name;
import jdk.jfr.StackTrace;
import jdk.jfr.Timespan;

/**
 * What the flight recorder hears of the source's hops. Each event stands at the end of what it tells of, and {@code
 * took} says how long that was, in nanoseconds. What happens to every chunk asks a probe whether anybody records, so
 * that no event is made for nobody.
 */
final class HopEvents {
    private HopEvents() {}

    @Name("ppmr.source.ChunkFlight")
    @Label("Chunk flight")
    @Description("From the advertisement of a chunk to its release by the target")
    @Category("ppmr")
    @StackTrace(false)
    static final class ChunkFlight extends Event {
        static final ChunkFlight PROBE = new ChunkFlight();

        @Label("Chunk")
        int chunk;

        @Label("Took")
        @Timespan(Timespan.NANOSECONDS)
        long took;
    }

    @Name("ppmr.source.PoolWait")
    @Label("Pool wait")
    @Description("A writer waited for a chunk of the pool")
    @Category("ppmr")
    @StackTrace(false)
    static final class PoolWait extends Event {
        static final PoolWait PROBE = new PoolWait();

        @Label("Took")
        @Timespan(Timespan.NANOSECONDS)
        long took;
    }

    @Name("ppmr.source.SlotWait")
    @Label("Slot wait")
    @Description("A writer waited for a slot at the target")
    @Category("ppmr")
    @StackTrace(false)
    static final class SlotWait extends Event {
        static final SlotWait PROBE = new SlotWait();

        @Label("File")
        int file;

        @Label("Took")
        @Timespan(Timespan.NANOSECONDS)
        long took;
    }
}
