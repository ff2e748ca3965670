package io.ppmr.migration.target;

/**
 * The progress of a migration that arrives at this node. Immutable.
 *
 * @param id name of the migration
 * @param job its name at the source, or empty if the migration was recovered after a crash of this service
 * @param source address of the source, HOST:PORT; empty as above
 * @param step the current step
 * @param seconds time since the source's request
 * @param expectedBytes memory of the ranks at the request, which is about the size of the image
 * @param arrivedBytes bytes that arrived
 * @param readBytes bytes that the restarts read
 * @param stagedBytes bytes that had to wait in staging
 * @param bytesPerSecond average rate of arrival
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
        /** The image arrives, and restarts read it. */
        ARRIVING,
        /** Every rank is restored and held. The source decides. */
        HELD,
        /** The ranks run here. */
        COMMITTED,
        /** No copy is left here. */
        ROLLED_BACK
    }
}
