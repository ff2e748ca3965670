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

/** Tests what an operator's word is answered, by where the migration stands. */
class OperatorRulesTest {
    private static final String ID = "m-1";
    private static final OperatorDecision COMMIT = word(FinalOutcome.COMMITTED);
    private static final OperatorDecision ROLLBACK = word(FinalOutcome.ROLLED_BACK);

    private static OperatorDecision word(FinalOutcome outcome, String... targetsOff) {
        return new OperatorDecision(outcome, Set.of(targetsOff), false, false);
    }

    private static CoordinatorState source(CoordinatorState.CoordinatorPhase phase) {
        return States.sealed(ID, List.of("a:1", "b:1"), phase);
    }

    private static ParticipantState target(String self, ParticipantState.Phase phase) {
        return States.withoutSource(States.participant(ID, List.of("a:1", "b:1"), self, phase), true);
    }

    private static void rules(How how, OperatorDecision.DecisionPreview ruling, String... words) {
        assertEquals(how, ruling.how(), ruling.text());
        for (String said : words) {
            assertTrue(ruling.text().contains(said), "'" + ruling.text() + "' does not say '" + said + "'");
        }
    }

    private static OperatorDecision.DecisionPreview atSource(
            CoordinatorState.CoordinatorPhase phase, OperatorDecision word, String... unreached) {
        return OperatorRules.ofCoordinator(source(phase), word, Set.of(unreached), false);
    }

    @Test
    void shouldRefuseAtTheSourceWhenNothingIsToBeDecided() {
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
    void shouldWantEachVoterNamedThatIsNotReachedAndNoneThatIs() {
        CoordinatorState.CoordinatorPhase phase = CoordinatorState.CoordinatorPhase.ROLLING_BACK;
        rules(How.REFUSED, atSource(phase, ROLLBACK, "a:1", "b:1"), "--target-is-off a:1 b:1");
        OperatorDecision one = word(FinalOutcome.ROLLED_BACK, "a:1");
        rules(How.REFUSED, atSource(phase, one, "a:1", "b:1"), "--target-is-off b:1");
        rules(How.REFUSED, atSource(phase, one, "b:1"), "[a:1] is not off");
        rules(How.FOLLOWED, atSource(phase, one, "a:1"), "continue here at once", "may run at once");
        rules(How.REFUSED, atSource(phase, word(FinalOutcome.ROLLED_BACK, "c:1"), "a:1"), "takes no part", "a:1, b:1");
        rules(
                How.FOLLOWED,
                atSource(CoordinatorState.CoordinatorPhase.COMMITTING, word(FinalOutcome.COMMITTED, "a:1"), "a:1"),
                "count as lost");
    }

    @Test
    void shouldLetAnOperatorDecideWhatIsBroken() {
        CoordinatorState.CoordinatorPhase broken = CoordinatorState.CoordinatorPhase.BROKEN;
        rules(How.FOLLOWED, atSource(broken, ROLLBACK), "not whole", "[a:1, b:1]");
        rules(How.FOLLOWED, atSource(broken, COMMIT), "still held");
        CoordinatorState unsealed = States.unsealed(ID, List.of("a:1"), broken);
        rules(How.REFUSED, OperatorRules.ofCoordinator(unsealed, COMMIT, Set.of(), false), "cannot be committed");
    }

    private static OperatorDecision.DecisionPreview atTarget(
            ParticipantState state, OperatorDecision word, boolean fence) {
        return OperatorRules.ofParticipant(state, word, "10.0.0.1", fence);
    }

    @Test
    void shouldWantProofOrAWordForTheSourceAtTheFirstTarget() {
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
        rules(How.FOLLOWED, atTarget(committed, word(FinalOutcome.COMMITTED, "b:1"), false), "count as lost");
        rules(How.REFUSED, atTarget(committed, word(FinalOutcome.COMMITTED, "c:1"), false), "no other target");
    }
}
