package io.ppmr.checkpoint;

import java.io.IOException;
import java.time.Duration;

/**
 * The end of the time that one look at a rank may take. What a look reads grows with what users of the node have, and
 * with what the rank has. A look that is not over by then has found nothing out. Immutable, for any thread.
 */
final class LookDeadline {
    private final long startNs = System.nanoTime();
    private final Duration limit;

    /** Starts now. */
    LookDeadline(Duration limit) {
        this.limit = limit;
    }

    /**
     * Throws if the time is over.
     *
     * @param what is being read
     */
    void require(Object what) throws PassedException {
        if (System.nanoTime() - startNs > limit.toNanos()) {
            throw new PassedException("a look at it has not ended within " + limit.toMillis() + " ms: " + what
                    + " is longer than can be read by then");
        }
    }

    /** The look is not over, and its time is. */
    static final class PassedException extends IOException {
        private static final long serialVersionUID = 1;

        PassedException(String message) {
            super(message);
        }
    }
}
