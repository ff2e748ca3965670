package io.ppmr.migration.target;

/**
 * The progress of a migration that comes to this node. Immutable.
 *
 * @param id of the migration
 * @param job its name at the source; empty of one that was recovered after this service had died
 * @param source where it comes from, HOST:PORT; empty as above
 * @param step what is done
 * @param seconds since the source asked for it
 * @param expectedBytes what the ranks had in memory when it was asked for, which is about the size of the image
 * @param arrivedBytes what has come
 * @param readBytes what the restarts have read
 * @param stagedBytes what had to wait beside the pool
 * @param bytesPerSecond what has come, by the time that it took on the average
 */
public record Arrival(
        String id,
        String job,
        String source,
        ArrivalStep step,
        double seconds,
        long expectedBytes,
        long arrivedBytes,
        long readBytes,
        long stagedBytes,
        double bytesPerSecond) {

    /** The steps of a migration at the target. */
    public enum ArrivalStep {
        /** The image comes, and restarts read it. */
        ARRIVING,
        /** Every rank is restored and held; the source decides. */
        HELD,
        /** The ranks run here. */
        COMMITTED,
        /** Nothing of them is left here. */
        ROLLED_BACK
    }
}
