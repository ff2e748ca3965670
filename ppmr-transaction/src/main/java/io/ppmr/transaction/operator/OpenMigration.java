package io.ppmr.transaction.operator;

import java.util.List;

/**
 * A migration that is not over and that an operator should see. Its ranks are held because a peer does not answer, or
 * it was recovered after a restart of the service. Immutable.
 *
 * @param id its name
 * @param phase its phase in the tables of docs/internals/transaction.md
 * @param recovered an earlier run of the service began it
 * @param heldRanks ranks that are stopped on this node
 * @param sinceEpochMs start of the wait, by the knowledge of this run of the service
 * @param waitsFor unreachable peer and the remedy, or null if the migration only needs time
 */
public record OpenMigration(
        String id, String phase, boolean recovered, List<Integer> heldRanks, long sinceEpochMs, String waitsFor) {
    private static final int LEAST_OF_ID = 4;

    public OpenMigration {
        heldRanks = List.copyOf(heldRanks);
    }

    /** Returns true if an operator's input names this migration in full, or by at least its first four characters. */
    public static boolean isNamed(String id, String name) {
        return id.equals(name) || (name.length() >= LEAST_OF_ID && id.startsWith(name));
    }
}
