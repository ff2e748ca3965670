package io.ppmr.checkpoint.sharing;

/**
 * A reason not to move a rank. Immutable.
 *
 * @param rank the rank
 * @param reason the process, what it holds, and who has the other side
 * @param remedy what the job's owner can do
 */
public record Refusal(int rank, String reason, String remedy) {
    @Override
    public String toString() {
        return reason + ". Remedy: " + remedy;
    }
}
