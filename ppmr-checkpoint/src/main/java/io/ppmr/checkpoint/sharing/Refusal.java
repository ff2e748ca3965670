package io.ppmr.checkpoint.sharing;

/**
 * A reason not to move a rank. Immutable.
 *
 * @param rank the rank
 * @param reason the process, its object, and the process with the other end
 * @param remedy the remedy for the job's owner
 */
public record Refusal(int rank, String reason, String remedy) {
    @Override
    public String toString() {
        return reason + ". Remedy: " + remedy;
    }
}
