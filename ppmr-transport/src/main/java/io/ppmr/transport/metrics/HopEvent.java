package io.ppmr.transport.metrics;

import jdk.jfr.Category;
import jdk.jfr.Event;
import jdk.jfr.Label;
import jdk.jfr.StackTrace;
import jdk.jfr.Timespan;

/**
 * An event of a hop for the flight recorder, created at the end of the hop. For events of each chunk a probe checks
 * whether a recording runs, so that no event is created without one.
 */
@Category("ppmr")
@StackTrace(false)
public abstract class HopEvent extends Event {
    /** The duration of the hop, in nanoseconds. */
    @Label("Took")
    @Timespan(Timespan.NANOSECONDS)
    protected long took;

    /** Records the duration. */
    public void commit(long tookNs) {
        took = tookNs;
        commit();
    }
}
