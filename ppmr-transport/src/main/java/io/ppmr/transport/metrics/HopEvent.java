package io.ppmr.transport.metrics;

import jdk.jfr.Category;
import jdk.jfr.Event;
import jdk.jfr.Label;
import jdk.jfr.StackTrace;
import jdk.jfr.Timespan;

/**
 * An event of a hop for the flight recorder. Stands at the end of what it tells of. What happens to every chunk asks a
 * probe whether a recording runs, so that no event is made without one.
 */
@Category("ppmr")
@StackTrace(false)
public abstract class HopEvent extends Event {
    /** The duration of the hop, in nanoseconds. */
    @Label("Took")
    @Timespan(Timespan.NANOSECONDS)
    protected long took;

    /** Records that it took so long. */
    public void commit(long tookNs) {
        took = tookNs;
        commit();
    }
}
