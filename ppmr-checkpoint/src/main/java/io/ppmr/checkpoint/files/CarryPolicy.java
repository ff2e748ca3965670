package io.ppmr.checkpoint.files;

/**
 * Decides which files of a node's own travel with a job. Each node has one of its own: the source's says what is sent,
 * the target's what may be written there. Immutable.
 *
 * @param copied the files, by their paths
 * @param limitBytes how many bytes a migration may carry, without the holes of the files
 * @param replace whether a file of the job's user at the target may be replaced
 */
public record CarryPolicy(PathPatterns copied, long limitBytes, boolean replace) {
    /** The most of one rank. */
    public static final int MOST_FILES = 512;

    /** The most of one rank's names together; a message has room for them. */
    public static final int MOST_PATH_CHARS = 256 << 10;

    /** The limit where nothing else is said: 1 GiB. */
    public static final long USUAL_LIMIT_BYTES = 1L << 30;

    /** Nothing is carried. */
    public static final CarryPolicy NONE = new CarryPolicy(PathPatterns.NONE, USUAL_LIMIT_BYTES, false);

    /** Returns true if a file at this path is carried. */
    public boolean names(String path) {
        return copied.matches(path);
    }
}
