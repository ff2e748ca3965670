package io.ppmr.transaction.operator;

import io.ppmr.transaction.journal.FinalOutcome;
import io.ppmr.transaction.operator.OperatorDecision.DecisionPreview;
import io.ppmr.transaction.rules.CoordinatorRules;
import io.ppmr.transaction.rules.CoordinatorState;
import io.ppmr.transaction.rules.CoordinatorState.Member;
import io.ppmr.transaction.rules.ParticipantState;
import java.util.Collection;
import java.util.List;
import java.util.Set;

/** Decides whether an operator's decision is followed, and explains what it would mean. */
public final class OperatorRules {
    private static final String MAY_RUN_TWICE =
            " If it is not, originals and copies may run at once, and the result may be wrong.";

    private OperatorRules() {}

    /**
     * Previews a decision at the source.
     *
     * @param unreached participants that do not answer
     * @param fence whether there is a fence command, which the service runs without an operator
     */
    public static DecisionPreview ofCoordinator(
            CoordinatorState state, OperatorDecision decision, Collection<String> unreached, boolean fence) {
        String id = state.migrationId();
        List<String> foreign = decision.targetsOff().stream()
                .filter(name -> state.member(name) == null)
                .sorted()
                .toList();
        if (!foreign.isEmpty()) {
            return DecisionPreview.refused(foreign + " takes no part in migration " + id
                    + "; name its targets like this: " + state.participants());
        }
        if (decision.sourceOff() || decision.firstOff()) {
            return DecisionPreview.refused("This is the source of migration " + id
                    + ", and it runs. Send --source-is-off and --first-is-off to a target's service.");
        }
        return switch (state.phase()) {
            case NEW, PREPARING ->
                DecisionPreview.refused("Migration " + id
                        + " is under way and not in doubt: it decides without an operator. `ppmr cancel " + id
                        + "` cancels it.");
            case CONFIRMING -> inLastRound(state, decision, unreached);
            case COMMITTING -> committing(state, decision, unreached);
            case ROLLING_BACK -> rollingBack(state, decision, unreached, fence);
            case BROKEN -> broken(state, decision);
            case COMMITTED -> DecisionPreview.refused("Migration " + id + " is decided and over: it has committed.");
            case ROLLED_BACK ->
                DecisionPreview.refused("Migration " + id + " is decided and over: it was rolled back.");
        };
    }

    private static DecisionPreview inLastRound(
            CoordinatorState state, OperatorDecision decision, Collection<String> unreached) {
        String id = state.migrationId();
        List<String> missing =
                Explanations.awaited(state).stream().filter(unreached::contains).toList();
        if (decision.commits()) {
            return DecisionPreview.refused("Migration " + id
                    + " is not decided, and commits as soon as all targets report that their copies are held"
                    + (missing.isEmpty() ? "." : ": it waits for " + missing + "."));
        }
        if (missing.isEmpty()) {
            return DecisionPreview.refused(
                    "Migration " + id + " is not in doubt: every target answers, and it decides by" + " itself now.");
        }
        DecisionPreview named = requireNamed(state, decision, missing, "");
        return named != null
                ? named
                : DecisionPreview.followed("Migration " + id
                        + " is rolled back: every copy is ended, and the originals that are"
                        + " left continue here when all targets have confirmed that or are off. If an original is"
                        + " gone, the computation is not whole. Named as off: " + sorted(decision.targetsOff())
                        + "."
                        + MAY_RUN_TWICE);
    }

    private static DecisionPreview committing(
            CoordinatorState state, OperatorDecision decision, Collection<String> unreached) {
        String id = state.migrationId();
        if (!decision.commits()) {
            return DecisionPreview.refused("Migration " + id
                    + " is decided already: it is committed, and its originals are" + " ended or being ended.");
        }
        List<String> missing =
                Explanations.awaited(state).stream().filter(unreached::contains).toList();
        DecisionPreview named = requireNamed(state, decision, missing, "");
        if (named != null) {
            return named;
        }
        if (decision.targetsOff().isEmpty()) {
            return DecisionPreview.refused("Migration " + id + " is decided already: it is committed, and ends when"
                    + " its targets have answered.");
        }
        return DecisionPreview.followed(
                "Migration " + id + " is committed already. The ranks of " + sorted(decision.targetsOff())
                        + " count as lost, and are no longer waited for: the computation is not whole.");
    }

    private static DecisionPreview rollingBack(
            CoordinatorState state, OperatorDecision decision, Collection<String> unreached, boolean fence) {
        String id = state.migrationId();
        if (decision.commits()) {
            return DecisionPreview.refused("Migration " + id
                    + " is decided already: it is rolled back, and a target may have" + " received that.");
        }
        List<String> missing =
                Explanations.awaited(state).stream().filter(unreached::contains).toList();
        if (missing.isEmpty() && decision.targetsOff().isEmpty()) {
            return DecisionPreview.refused(
                    "Migration " + id + " is decided already: it is rolled back, and the originals continue"
                            + " by themselves when its targets have answered.");
        }
        DecisionPreview named = requireNamed(
                state,
                decision,
                missing,
                fence ? ", or wait until the fence command, which the service runs, proves it off" : "");
        return named != null
                ? named
                : DecisionPreview.followed("Migration " + id
                        + " is rolled back already, and the originals continue here at once."
                        + " Named as off: " + sorted(decision.targetsOff()) + "." + MAY_RUN_TWICE);
    }

    /** Refuses a decision that marks an answering target as off, or that omits one that does not answer. */
    private static DecisionPreview requireNamed(
            CoordinatorState state, OperatorDecision decision, List<String> missing, String otherwise) {
        List<String> awaited = Explanations.awaited(state);
        List<String> answering = decision.targetsOff().stream()
                .filter(name -> awaited.contains(name) && !missing.contains(name))
                .sorted()
                .toList();
        if (!answering.isEmpty()) {
            return DecisionPreview.refused(answering + " is not off: it is connected, and answers.");
        }
        List<String> left = missing.stream()
                .filter(name -> !decision.targetsOff().contains(name))
                .toList();
        if (left.isEmpty()) {
            return null;
        }
        return DecisionPreview.refused(
                "Migration " + state.migrationId() + " waits for " + left + ". Start the service there"
                        + " again" + otherwise + "; if the node is off permanently, use --target-is-off "
                        + String.join(" ", left) + ".");
    }

    private static DecisionPreview broken(CoordinatorState state, OperatorDecision decision) {
        String id = state.migrationId();
        if (!decision.commits()) {
            List<String> sealed = state.members().stream()
                    .filter(Member::sealed)
                    .map(Member::name)
                    .filter(name -> !decision.targetsOff().contains(name))
                    .toList();
            return DecisionPreview.followed("An original of migration " + id + " is gone (" + state.reason()
                    + "). Every copy is"
                    + " ended, and the remaining originals continue here without it: the computation is not"
                    + " whole. "
                    + (sealed.isEmpty()
                            ? "It continues at once."
                            : "It continues when these, which may have voted, have confirmed that their copies are"
                                    + " ended: "
                                    + sealed + ".")
                    + (decision.targetsOff().isEmpty()
                            ? ""
                            : " Named as off: " + sorted(decision.targetsOff()) + "." + MAY_RUN_TWICE));
        }
        if (!CoordinatorRules.mayCommitBroken(state)) {
            return DecisionPreview.refused(
                    "Migration " + id + " cannot be committed: not every target can have voted, or one"
                            + " received a roll back. --rollback lets the remaining originals continue.");
        }
        return decision.targetsOff().isEmpty()
                ? DecisionPreview.followed(
                        "Every target of migration " + id + " is asked whether its copies are still held. If"
                                + " all are, the originals that are left are ended and the copies run.")
                : DecisionPreview.refused(
                        "Migration " + id + " can be committed only with every target's copies: use --commit"
                                + " without --target-is-off, or --rollback.");
    }

    /**
     * Previews a decision at a target.
     *
     * @param source the source's address
     * @param fence whether there is a fence command
     */
    public static DecisionPreview ofParticipant(
            ParticipantState state, OperatorDecision decision, String source, boolean fence) {
        String id = state.migrationId();
        List<String> foreign = decision.targetsOff().stream()
                .filter(name -> !state.others().contains(name))
                .sorted()
                .toList();
        boolean known = !state.participants().isEmpty();
        if (known && !foreign.isEmpty()) {
            return DecisionPreview.refused(foreign + " is no other target of migration " + id
                    + "; name the others like this: " + state.others());
        }
        return switch (state.phase()) {
            case NOTHING, PREPARING ->
                DecisionPreview.refused("Migration " + id + " is under way and not in doubt: nothing was voted here.");
            case PREPARED ->
                state.sourceLost()
                        ? prepared(state, decision, source, fence)
                        : DecisionPreview.refused("Migration " + id + " is not in doubt here: its source (" + source
                                + ") answers, and decides itself; send an operator's decision to the source's"
                                + " service.");
            case TAKEN_OVER -> takenOver(state, decision);
            case COMMITTED, ROLLED_BACK -> decided(state, decision);
        };
    }

    private static DecisionPreview prepared(
            ParticipantState state, OperatorDecision decision, String source, boolean fence) {
        String id = state.migrationId();
        if (!state.isFirst()) {
            return notFirst(state, decision);
        }
        String others = state.others().isEmpty()
                ? ""
                : " These targets are queried for their state. Everything stays held until they answer: "
                        + state.others() + ".";
        String off = "The source (" + source + ") counts as off from now on." + MAY_RUN_TWICE + others;
        if (!decision.commits()) {
            return decision.sourceOff()
                    ? DecisionPreview.followed(
                            off + " Unless one has committed, every copy is ended and the computation is" + " gone.")
                    : DecisionPreview.refused(
                            "The rollback of migration " + id + " ends every copy. Start the source's service" + " ("
                                    + source + ") again, or if its node is off permanently, use --source-is-off.");
        }
        String commit = state.others().isEmpty()
                ? " The copies here run."
                : " If all have prepared, the copies run everywhere; if one has rolled back, all do.";
        if (decision.sourceOff()) {
            return DecisionPreview.followed(off + commit);
        }
        return fence
                ? new DecisionPreview(
                        DecisionPreview.How.AFTER_FENCE,
                        "The fence command is run for the source (" + source + ") once the other targets have promised"
                                + " not to roll back. It may cut the power of a node that is well. If it proves the"
                                + " source"
                                + " off, this target takes over." + others + commit)
                : DecisionPreview.refused(
                        "The source (" + source + ") of migration " + id + " must be proved off, and there is"
                                + " no fence command in this target's configuration. Start the source's service "
                                + "again, or if"
                                + " its node is off permanently, use --source-is-off. If it is not, originals "
                                + "and copies may"
                                + " run at once.");
    }

    private static DecisionPreview notFirst(ParticipantState state, OperatorDecision decision) {
        String id = state.migrationId();
        String first = state.participants().get(0);
        if (decision.commits()) {
            return DecisionPreview.refused("The first target of migration " + id + " is " + first
                    + ": run `ppmr resolve " + id + " --commit` there.");
        }
        if (!decision.firstOff() || !decision.sourceOff()) {
            return DecisionPreview.refused(
                    "The first target of migration " + id + " is " + first + ": run `ppmr resolve` there."
                            + " If it is off permanently, and the source as well, --rollback --source-is-off "
                            + "--first-is-off gives"
                            + " up what is held here.");
        }
        return DecisionPreview.followed(
                "The source and " + first + " count as off from now on. The copies here are ended, so"
                        + " the computation is gone, or not whole where another target's copies run.");
    }

    private static DecisionPreview takenOver(ParticipantState state, OperatorDecision decision) {
        String id = state.migrationId();
        if (!state.isFirst()) {
            return notFirst(state, decision);
        }
        List<String> left = state.silent().stream()
                .filter(name -> !decision.targetsOff().contains(name))
                .toList();
        if (decision.commits()) {
            return state.aim() == FinalOutcome.COMMITTED
                    ? DecisionPreview.refused("Migration " + id
                            + " is being taken over towards a commit already, and waits for "
                            + state.silent() + ": start the service there again. If such a node is off permanently, its"
                            + " copies are lost: --rollback --target-is-off " + String.join(" ", state.silent()) + ".")
                    : DecisionPreview.followed(
                            "Migration " + id + " is taken over, now towards a commit: if all have prepared,"
                                    + " the copies run everywhere.");
        }
        return DecisionPreview.followed(
                "Migration " + id + " is abandoned: unless one has committed, every copy is ended and the"
                        + " computation is gone. "
                        + (left.isEmpty()
                                ? "No peer is waited for."
                                : "All stays held until these have answered: " + left + "."));
    }

    private static DecisionPreview decided(ParticipantState state, OperatorDecision decision) {
        String id = state.migrationId();
        boolean committed = state.phase() == ParticipantState.Phase.COMMITTED;
        String how = committed ? "committed" : "rolled back";
        if (decision.commits() != committed || state.done()) {
            return DecisionPreview.refused("Migration " + id + " is decided already: it is " + how + " here.");
        }
        List<String> off =
                state.silent().stream().filter(decision.targetsOff()::contains).toList();
        return off.isEmpty()
                ? DecisionPreview.refused("Migration " + id + " is decided already: it is " + how
                        + " here, and that is sent to"
                        + " these until they answer: " + state.silent() + ". If such a node is off permanently, use:"
                        + " --target-is-off " + String.join(" ", state.silent()) + ".")
                : DecisionPreview.followed("Migration " + id + " is " + how + " here already; " + off
                        + " count as lost, and" + " nothing more is sent to them.");
    }

    private static String sorted(Set<String> names) {
        return names.isEmpty()
                ? "none"
                : String.join(", ", names.stream().sorted().toList());
    }
}
