package io.ppmr.checkpoint;

/**
 * As whom a checkpointer's two commands run. It decides whose the directory of an image is: nobody but the user of the
 * restart, and the job's user only where that is the same, can change what a restart reads.
 */
public enum RunAs {
    /** Both commands run as the job's user, who owns the image. */
    JOB_USER,

    /**
     * The checkpoint command runs as root and has the job's user write the image ({@code runuser}, DMTCP); so the image
     * is that user's, and the restart runs as that user, too.
     */
    ROOT_THEN_JOB_USER,

    /** Both commands run as root, which owns the image. */
    ROOT;

    /** Whether the checkpoint command runs as the service's own user, which is root. */
    public boolean checkpointsAsRoot() {
        return this != JOB_USER;
    }

    /** Whether the restart runs as the service's own user, which is root. */
    public boolean restartsAsRoot() {
        return this == ROOT;
    }
}
