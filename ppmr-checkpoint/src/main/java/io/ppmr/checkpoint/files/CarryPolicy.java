package io.ppmr.checkpoint.files;

import io.ppmr.os.config.Key;

/**
 * Decides which files of a node's own travel with a job. Each node has one of its own: the source's says what is sent,
 * the target's what may be written there. Immutable.
 *
 * @param copy the files, by their paths
 * @param copyLimit how many bytes a migration may carry, without the holes of the files
 * @param replace whether a file of the job's user at the target may be replaced
 */
public record CarryPolicy(
        @Key(
                value = "[]",
                doc = "those that travel with a job that has them open or mapped. The configurations of both nodes have"
                        + " to name them; they are written as the job's user"
                        + " ([files](../admin/checkpointers.md#files-that-travel-with-a-job))",
                example = "[\"/local/scratch/**\"]")
        PathPatterns copy,

        @Key(
                value = "1g",
                doc = "how much of them may travel with a migration, without the holes of the files",
                example = "4g")
        long copyLimit,

        @Key(
                value = "false",
                doc = "whether they may take the place of files of the job's user at the target, if both nodes'"
                        + " configurations say so; those are put back if the migration is rolled back",
                example = "true")
        boolean replace) {
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
        return copy.matches(path);
    }
}
