package io.ppmr.testbed;

import java.time.Duration;

/**
 * The factor by which tests wait longer than usual for what others bring about: the property {@code ppmr.patience}, for
 * a machine that is busy otherwise. Limits of the product are never raised by it.
 */
public final class Patience {
    private static final int FACTOR = Math.max(1, Integer.getInteger("ppmr.patience", 1));

    private Patience() {}

    /** Returns a limit for a test's own wait. */
    public static Duration of(Duration usual) {
        return usual.multipliedBy(FACTOR);
    }

    /** Returns a limit for a test's own wait, in any unit. */
    public static long of(long usual) {
        return usual * FACTOR;
    }
}
