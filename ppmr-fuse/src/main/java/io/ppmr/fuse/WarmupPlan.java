package io.ppmr.fuse;

/**
 * How much I/O {@link Warmup} drives through a mount, at most.
 *
 * @param direction what the clients do
 * @param clients processes at a time, above 0; as many as ranks are expected, up to about 8
 * @param smallRequests requests of {@link #SMALL_BYTES} in all, which make the JVM compile the path: it counts calls,
 *     not bytes
 * @param largeBytes bytes a round in requests of 128 KiB, after the small ones
 * @param roundsMax rounds of large requests, at least 2; fewer if a round is no longer faster than those before
 * @param timeoutNs for all of it; the warm-up ends quietly when it is spent
 */
public record WarmupPlan(
        Direction direction, int clients, int smallRequests, long largeBytes, int roundsMax, long timeoutNs) {
    /** Size of a small request. */
    public static final int SMALL_BYTES = 512;
    /** Size of a large request, the largest that libfuse 2.9 passes on. */
    public static final int LARGE_BYTES = 128 * 1024;

    /** Whether the service's filesystem is written (source) or read (target). */
    public enum Direction {
        WRITE,
        READ
    }

    public WarmupPlan {
        if (clients < 1 || smallRequests < 0 || largeBytes < LARGE_BYTES || roundsMax < 2 || timeoutNs <= 0) {
            throw new IllegalArgumentException("warm-up of " + clients + " clients, " + smallRequests
                    + " small requests, " + largeBytes + " bytes a round, " + roundsMax + " rounds, " + timeoutNs
                    + " ns: clients and timeout must be above 0, a round at least " + LARGE_BYTES
                    + " bytes, and rounds at least 2");
        }
    }
}
