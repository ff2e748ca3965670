package io.ppmr.checkpoint.sharing;

/**
 * A process that holds an object. Immutable.
 *
 * @param pid its number in this service's PID namespace
 * @param name its name from the kernel
 * @param rank its rank, or {@link #OUTSIDE}
 */
public record Holder(int pid, String name, int rank) {
    /** Replaces the rank's number for a process that belongs to no rank of the job. */
    public static final int OUTSIDE = -1;

    /** Returns true if it belongs to a rank of the job. */
    public boolean isOfJob() {
        return rank != OUTSIDE;
    }

    @Override
    public String toString() {
        return "PID " + pid + " (" + EscapedName.text(name) + ")";
    }
}
