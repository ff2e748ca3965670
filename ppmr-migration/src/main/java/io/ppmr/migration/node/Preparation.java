package io.ppmr.migration.node;

import io.ppmr.checkpoint.CheckpointException;
import java.time.Duration;
import java.util.function.BooleanSupplier;

/**
 * Bounds the time of the checks before a job is changed. Its user decides how many processes and mappings it has. The
 * checks call it between two pieces of work. Any thread; made when the work begins.
 */
public final class Preparation {
    /** An idle node inspects ten thousand ranks in some seconds. */
    private static final Duration USUAL_LIMIT = Duration.ofMinutes(5);

    private final BooleanSupplier calledOff;
    private final Duration limit;
    private final long startNs = System.nanoTime();

    /** Begins with the production limit, unless the work is called off before. */
    public Preparation(BooleanSupplier calledOff) {
        this(calledOff, USUAL_LIMIT);
    }

    Preparation(BooleanSupplier calledOff, Duration limit) {
        this.calledOff = calledOff;
        this.limit = limit;
    }

    /** Returns true once the checks must end. */
    public boolean isOver() {
        return calledOff.getAsBoolean() || isLate();
    }

    private boolean isLate() {
        return System.nanoTime() - startNs > limit.toNanos();
    }

    /** Throws, with the reason, once the checks must end. */
    public void requireTime() throws CheckpointException {
        if (isLate()) {
            throw new CheckpointException("the scan of the job's processes took longer than " + limit.toSeconds()
                    + " s: they are too many, or have too many mappings. Remedy: move it as several jobs");
        }
        if (calledOff.getAsBoolean()) {
            throw new CheckpointException("the scan of the job's processes was called off");
        }
    }
}
