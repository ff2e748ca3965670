package io.ppmr.checkpoint.sharing;

/**
 * A process that holds something. Immutable.
 *
 * @param pid its number as this service sees it
 * @param name as the kernel shows it
 * @param rank the rank to which it belongs, or {@link #OUTSIDE}
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
