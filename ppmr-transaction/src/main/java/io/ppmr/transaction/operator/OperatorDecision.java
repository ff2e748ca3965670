package io.ppmr.transaction.operator;

import io.ppmr.transaction.journal.FinalOutcome;
import java.util.Set;

/**
 * The decision of an operator for a migration whose ranks are held, and the operator's assurances
 * (docs/internals/transaction.md, "Operators"). Immutable.
 *
 * @param outcome the decision
 * @param targetsOff targets, by their names in the plan, whose nodes are off permanently
 * @param sourceOff at a target: the source's node is off
 * @param firstOff at a target that is not the first: the first one's node is off as well
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
     * @param how how it would be followed
     * @param text its meaning, or why it is refused and the remedy; whole sentences
     */
    public record DecisionPreview(How how, String text) {
        /** The ways in which a decision is followed. */
        public enum How {
            /** The decision is refused. Nothing changes. */
            REFUSED,
            /** The decision is followed at once. */
            FOLLOWED,
            /** The fence command runs for the decision. The decision is followed if that proves the source off. */
            AFTER_FENCE
        }

        static DecisionPreview refused(String text) {
            return new DecisionPreview(How.REFUSED, text);
        }

        static DecisionPreview followed(String text) {
            return new DecisionPreview(How.FOLLOWED, text);
        }

        /** Returns true if the decision is followed, at once or after the fence command. */
        public boolean allows() {
            return how != How.REFUSED;
        }
    }
}
