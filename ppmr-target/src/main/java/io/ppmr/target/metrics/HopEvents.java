package io.ppmr.target.metrics;

import jdk.jfr.Category;
import jdk.jfr.Description;
import jdk.jfr.Event;
import jdk.jfr.Label;
import jdk.jfr.Name;
import jdk.jfr.StackTrace;
import jdk.jfr.Timespan;

/**
 * What the flight recorder hears of the target's hops. Each event stands at the end of what it tells of, and {@code
 * took} says how long that was, in nanoseconds. What happens to every chunk asks a probe whether anybody records, so
 * that no event is made for nobody.
 */
final class HopEvents {
    private HopEvents() {}

    @Name("ppmr.target.Pull")
    @Label("Pull")
    @Description("A chunk was fetched from the source")
    @Category("ppmr")
    @StackTrace(false)
    static final class Pull extends Event {
        static final Pull PROBE = new Pull();

        @Label("Slot")
        int slot;

        @Label("Length")
        int length;

        @Label("Took")
        @Timespan(Timespan.NANOSECONDS)
        long took;
    }

    @Name("ppmr.target.PullWait")
    @Label("Pull wait")
    @Description("An advertised chunk waited for its pull to start")
    @Category("ppmr")
    @StackTrace(false)
    static final class PullWait extends Event {
        static final PullWait PROBE = new PullWait();

        @Label("Slot")
        int slot;

        @Label("Took")
        @Timespan(Timespan.NANOSECONDS)
        long took;
    }

    @Name("ppmr.target.ReaderWait")
    @Label("Reader wait")
    @Description("A restart waited for bytes that had not come")
    @Category("ppmr")
    @StackTrace(false)
    static final class ReaderWait extends Event {
        static final ReaderWait PROBE = new ReaderWait();

        @Label("File")
        int file;

        @Label("Took")
        @Timespan(Timespan.NANOSECONDS)
        long took;
    }
}
