package io.ppmr.transaction.operator;

import io.ppmr.transaction.journal.FinalOutcome;
import java.util.Set;

/**
 * The decision of an operator for a migration whose ranks are held, and what the operator vouches for
 * (docs/internals/transaction.md, "Operators"). Immutable.
 *
 * @param outcome the decision
 * @param targetsOff targets, by their names in the plan, that the operator says are off for good
 * @param sourceOff at a target: that the source's node is off
 * @param firstOff at a target that is not the first: that the first one's node is off as well
 */
public record OperatorDecision(FinalOutcome outcome, Set<String> targetsOff, boolean sourceOff, boolean firstOff) {
    public OperatorDecision {
        targetsOff = Set.copyOf(targetsOff);
    }

    boolean commits() {
        return outcome == FinalOutcome.COMMITTED;
    }

    /**
     * The effect that an operator's decision would have, in words. Immutable.
     *
     * @param how whether it would be followed
     * @param text what it would mean, or why it is refused and what to do instead; whole sentences
     */
    public record DecisionPreview(How how, String text) {
        /** The ways in which a decision is followed. */
        public enum How {
            /** It is not; nothing changes. */
            REFUSED,
            /** It is, at once. */
            FOLLOWED,
            /** It is if the fence command proves the source off, which is run for it. */
            AFTER_FENCE
        }

        static DecisionPreview refused(String text) {
            return new DecisionPreview(How.REFUSED, text);
        }

        static DecisionPreview followed(String text) {
            return new DecisionPreview(How.FOLLOWED, text);
        }

        /** Returns true if it is followed, at once or once the fence has succeeded. */
        public boolean allows() {
            return how != How.REFUSED;
        }
    }
}
