package io.ppmr.checkpoint;

/**
 * Says as whom a checkpointer's two commands run, and so who owns the directory of an image: only the user as whom the
 * restart runs can change what it reads.
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

    /** Returns true if the checkpoint command runs as the service's own user, which is root. */
    public boolean checkpointsAsRoot() {
        return this != JOB_USER;
    }

    /** Returns true if the restart runs as the service's own user, which is root. */
    public boolean restartsAsRoot() {
        return this == ROOT;
    }
}
