package io.ppmr.transaction.operator;

import java.util.List;

/**
 * A migration that is not over and that an operator should know of: ranks of it are held because a peer does not
 * answer, or it was recovered after a restart of the service. Immutable.
 *
 * @param id its name
 * @param phase where it stands, by the tables of docs/internals/transaction.md
 * @param takenUp an earlier run of the service has begun it
 * @param heldRanks the ranks that are stopped on this node
 * @param sinceEpochMs since when, as far as this run of the service knows
 * @param waitsFor the peer that it waits for and the remedy, or null if it only needs time
 */
public record OpenMigration(
        String id, String phase, boolean takenUp, List<Integer> heldRanks, long sinceEpochMs, String waitsFor) {
    private static final int LEAST_OF_ID = 4;

    public OpenMigration {
        heldRanks = List.copyOf(heldRanks);
    }

    /** Returns whether an operator means this migration: by its name, or at least the first four characters of it. */
    public static boolean isNamed(String id, String said) {
        return id.equals(said) || (said.length() >= LEAST_OF_ID && id.startsWith(said));
    }
}
