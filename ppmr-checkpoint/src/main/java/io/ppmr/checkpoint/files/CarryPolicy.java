package io.ppmr.checkpoint.files;

import io.ppmr.linux.config.Key;

/**
 * Decides which files of a node move with a job. Each node has its own policy. The source's decides which files are
 * sent, the target's which files may be written there. Immutable.
 *
 * @param copy the files, by their paths
 * @param copyLimit maximum size of a migration's files, without their holes
 * @param replace whether a file of the job's user at the target may be replaced
 */
public record CarryPolicy(
        @Key(
                value = "[]",
                doc = "files that move with a job that has them open or mapped. The configurations of both nodes must"
                        + " name them. The target writes them as the job's user"
                        + " ([files](../admin/checkpointers.md#files-that-travel-with-a-job))",
                example = "[\"/local/scratch/**\"]")
        PathPatterns copy,

        @Key(value = "1g", doc = "maximum size of the files of a migration, without their holes", example = "4g")
        long copyLimit,

        @Key(
                value = "false",
                doc = "whether they may replace files of the job's user at the target. The configurations of both"
                        + " nodes must allow it. A rollback puts the replaced files back",
                example = "true")
        boolean replace) {
    /** Maximum number of one rank's files. */
    public static final int MOST_FILES = 512;

    /** Maximum size of one rank's names together, so that they fit a message. */
    public static final int MOST_PATH_CHARS = 256 << 10;

    /** The default limit: 1 GiB. */
    public static final long USUAL_LIMIT_BYTES = 1L << 30;

    /** No file moves. */
    public static final CarryPolicy NONE = new CarryPolicy(PathPatterns.NONE, USUAL_LIMIT_BYTES, false);

    /** Returns true if a file at this path moves with its job. */
    public boolean names(String path) {
        return copy.matches(path);
    }
}
