package io.ppmr.migration.node;

import io.ppmr.checkpoint.CheckpointException;
import java.time.Duration;
import java.util.function.BooleanSupplier;

/**
 * Bounds the time in which a job is looked at before anything is done to it: its user decides how many processes and
 * mappings there are. Asked between two pieces of that work. Any thread; made when the work begins.
 */
public final class Preparation {
    /** Ten thousand ranks are looked at in some seconds on an idle node. */
    private static final Duration USUAL_LIMIT = Duration.ofMinutes(5);

    private final BooleanSupplier calledOff;
    private final Duration limit;
    private final long startNs = System.nanoTime();

    /** The usual time, unless it is called off before. */
    public Preparation(BooleanSupplier calledOff) {
        this(calledOff, USUAL_LIMIT);
    }

    Preparation(BooleanSupplier calledOff, Duration limit) {
        this.calledOff = calledOff;
        this.limit = limit;
    }

    /** Returns true once nothing more must be looked at. */
    public boolean isOver() {
        return calledOff.getAsBoolean() || isLate();
    }

    private boolean isLate() {
        return System.nanoTime() - startNs > limit.toNanos();
    }

    /** Throws, and says why, once nothing more must be looked at. */
    public void requireTime() throws CheckpointException {
        if (isLate()) {
            throw new CheckpointException("looking at the job's processes has taken longer than " + limit.toSeconds()
                    + " s: they are too many, or have too many mappings. Remedy: move it as several jobs");
        }
        if (calledOff.getAsBoolean()) {
            throw new CheckpointException("the look at the job's processes was called off");
        }
    }
}
