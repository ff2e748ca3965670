package io.ppmr.doctor;

/**
 * What limits a node that is to take a job, besides what it has. Immutable.
 *
 * @param stagingInMemory whether an image that waits here takes memory, too
 * @param promisedBytes memory that migrations under way here will still take
 * @param whyStagingIsSmall why images find less room than is configured, in words that follow a number; empty if they
 *     do not
 */
public record Room(boolean stagingInMemory, long promisedBytes, String whyStagingIsSmall) {
    /** A node that does nothing else. */
    public static final Room IDLE = new Room(false, 0, "");
}
