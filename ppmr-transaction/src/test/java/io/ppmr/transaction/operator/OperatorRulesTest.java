package io.ppmr.transaction.operator;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.transaction.journal.FinalOutcome;
import io.ppmr.transaction.operator.OperatorDecision.DecisionPreview.How;
import io.ppmr.transaction.rules.CoordinatorState;
import io.ppmr.transaction.rules.ParticipantState;
import io.ppmr.transaction.rules.States;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.Test;

/** Tests the answers to an operator's decision in each phase of a migration. */
class OperatorRulesTest {
    private static final String ID = "m-1";
    private static final OperatorDecision COMMIT = decision(FinalOutcome.COMMITTED);
    private static final OperatorDecision ROLLBACK = decision(FinalOutcome.ROLLED_BACK);

    private static OperatorDecision decision(FinalOutcome outcome, String... targetsOff) {
        return new OperatorDecision(outcome, Set.of(targetsOff), false, false);
    }

    private static CoordinatorState source(CoordinatorState.CoordinatorPhase phase) {
        return States.sealed(ID, List.of("a:1", "b:1"), phase);
    }

    private static ParticipantState target(String self, ParticipantState.Phase phase) {
        return States.withoutSource(States.participant(ID, List.of("a:1", "b:1"), self, phase), true);
    }

    private static void rules(How how, OperatorDecision.DecisionPreview preview, String... words) {
        assertEquals(how, preview.how(), preview.text());
        for (String expected : words) {
            assertTrue(
                    preview.text().contains(expected), "'" + preview.text() + "' does not contain '" + expected + "'");
        }
    }

    private static OperatorDecision.DecisionPreview atSource(
            CoordinatorState.CoordinatorPhase phase, OperatorDecision decision, String... unreached) {
        return OperatorRules.ofCoordinator(source(phase), decision, Set.of(unreached), false);
    }

    @Test
    void shouldRefuseAtTheSourceWhenNothingIsInDoubt() {
        rules(
                How.REFUSED,
                atSource(CoordinatorState.CoordinatorPhase.PREPARING, ROLLBACK),
                "not in doubt",
                "ppmr cancel m-1");
        rules(How.REFUSED, atSource(CoordinatorState.CoordinatorPhase.CONFIRMING, ROLLBACK), "every target answers");
        rules(
                How.REFUSED,
                atSource(CoordinatorState.CoordinatorPhase.ROLLING_BACK, ROLLBACK),
                "continue by themselves");
        rules(How.REFUSED, atSource(CoordinatorState.CoordinatorPhase.COMMITTED, COMMIT), "has committed");
        rules(How.REFUSED, atSource(CoordinatorState.CoordinatorPhase.ROLLED_BACK, COMMIT), "was rolled back");
    }

    @Test
    void shouldRefuseAtTheSourceWhenTheOtherIsDecided() {
        rules(How.REFUSED, atSource(CoordinatorState.CoordinatorPhase.COMMITTING, ROLLBACK, "a:1"), "it is committed");
        rules(
                How.REFUSED,
                atSource(CoordinatorState.CoordinatorPhase.ROLLING_BACK, COMMIT, "a:1"),
                "it is rolled back");
    }

    @Test
    void shouldRequireExactlyTheUnreachableVoters() {
        CoordinatorState.CoordinatorPhase phase = CoordinatorState.CoordinatorPhase.ROLLING_BACK;
        rules(How.REFUSED, atSource(phase, ROLLBACK, "a:1", "b:1"), "--target-is-off a:1 b:1");
        OperatorDecision one = decision(FinalOutcome.ROLLED_BACK, "a:1");
        rules(How.REFUSED, atSource(phase, one, "a:1", "b:1"), "--target-is-off b:1");
        rules(How.REFUSED, atSource(phase, one, "b:1"), "[a:1] is not off");
        rules(How.FOLLOWED, atSource(phase, one, "a:1"), "continue here at once", "may run at once");
        rules(
                How.REFUSED,
                atSource(phase, decision(FinalOutcome.ROLLED_BACK, "c:1"), "a:1"),
                "takes no part",
                "a:1, b:1");
        rules(
                How.FOLLOWED,
                atSource(CoordinatorState.CoordinatorPhase.COMMITTING, decision(FinalOutcome.COMMITTED, "a:1"), "a:1"),
                "count as lost");
    }

    @Test
    void shouldFollowADecisionWhenBroken() {
        CoordinatorState.CoordinatorPhase broken = CoordinatorState.CoordinatorPhase.BROKEN;
        rules(How.FOLLOWED, atSource(broken, ROLLBACK), "not whole", "[a:1, b:1]");
        rules(How.FOLLOWED, atSource(broken, COMMIT), "still held");
        CoordinatorState unsealed = States.unsealed(ID, List.of("a:1"), broken);
        rules(How.REFUSED, OperatorRules.ofCoordinator(unsealed, COMMIT, Set.of(), false), "cannot be committed");
    }

    private static OperatorDecision.DecisionPreview atTarget(
            ParticipantState state, OperatorDecision decision, boolean fence) {
        return OperatorRules.ofParticipant(state, decision, "10.0.0.1", fence);
    }

    @Test
    void shouldRequireProofOrAssuranceForTheSourceAtTheFirstTarget() {
        ParticipantState held = target("a:1", ParticipantState.Phase.PREPARED);
        OperatorDecision sure = new OperatorDecision(FinalOutcome.COMMITTED, Set.of(), true, false);
        rules(How.REFUSED, atTarget(held, COMMIT, false), "10.0.0.1", "--source-is-off");
        rules(How.AFTER_FENCE, atTarget(held, COMMIT, true), "may cut the power", "[b:1]");
        rules(How.FOLLOWED, atTarget(held, sure, true), "counts as off", "[b:1]");
        rules(How.REFUSED, atTarget(held, ROLLBACK, true), "--source-is-off");
        rules(How.REFUSED, atTarget(States.withoutSource(held, false), sure, false), "not in doubt here");
    }

    @Test
    void shouldNameTheFirstTargetAtAnotherOne() {
        ParticipantState held = target("b:1", ParticipantState.Phase.PREPARED);
        rules(How.REFUSED, atTarget(held, COMMIT, true), "first target", "a:1", "--commit` there");
        OperatorDecision both = new OperatorDecision(FinalOutcome.ROLLED_BACK, Set.of(), true, true);
        rules(How.FOLLOWED, atTarget(held, both, false), "copies here are ended");
        OperatorDecision one = new OperatorDecision(FinalOutcome.ROLLED_BACK, Set.of(), true, false);
        rules(How.REFUSED, atTarget(held, one, false), "--first-is-off");
    }

    @Test
    void shouldRefuseATargetWhenItIsDecidedOrNothingWasVoted() {
        rules(
                How.REFUSED,
                atTarget(target("a:1", ParticipantState.Phase.PREPARING), COMMIT, false),
                "under way and not in doubt");
        ParticipantState committed = States.committedHere(target("a:1", ParticipantState.Phase.PREPARED));
        rules(How.REFUSED, atTarget(committed, ROLLBACK, false), "decided already: it is committed");
        rules(How.REFUSED, atTarget(committed, COMMIT, false), "--target-is-off b:1");
        rules(How.FOLLOWED, atTarget(committed, decision(FinalOutcome.COMMITTED, "b:1"), false), "count as lost");
        rules(How.REFUSED, atTarget(committed, decision(FinalOutcome.COMMITTED, "c:1"), false), "no other target");
    }
}
