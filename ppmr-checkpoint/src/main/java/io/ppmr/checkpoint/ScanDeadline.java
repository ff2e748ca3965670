package io.ppmr.checkpoint;

import java.io.IOException;
import java.time.Duration;

/**
 * The end of the time for one scan of a rank. The size of a scan depends on users of the node, and on the rank. A scan
 * that is not over by then has no result. Immutable, for any thread.
 */
final class ScanDeadline {
    private final long startNs = System.nanoTime();
    private final Duration limit;

    /** Starts now. */
    ScanDeadline(Duration limit) {
        this.limit = limit;
    }

    /**
     * Throws if the time is over.
     *
     * @param what file or list that is being read
     */
    void require(Object what) throws PassedException {
        if (System.nanoTime() - startNs > limit.toNanos()) {
            throw new PassedException("a scan has not ended within " + limit.toMillis() + " ms: " + what
                    + " is too long to be read in that time");
        }
    }

    /** The time was over before the scan. */
    static final class PassedException extends IOException {
        private static final long serialVersionUID = 1;

        PassedException(String message) {
            super(message);
        }
    }
}
