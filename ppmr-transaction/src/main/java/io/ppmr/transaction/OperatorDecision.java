package io.ppmr.transaction;

import java.util.Set;

/**
 * What an operator decides for a migration whose ranks are held, and what they vouch for (docs/transaction.md,
 * "Operators"). Immutable.
 *
 * @param outcome the decision
 * @param targetsOff targets, by their names in the plan, that the operator says are off for good
 * @param sourceOff at a target: that the source's node is off
 * @param firstOff at a target that is not the first: that the first one's node is off as well
 */
public record OperatorDecision(Outcome outcome, Set<String> targetsOff, boolean sourceOff, boolean firstOff) {
    public OperatorDecision {
        targetsOff = Set.copyOf(targetsOff);
    }

    boolean commits() {
        return outcome == Outcome.COMMITTED;
    }
}
