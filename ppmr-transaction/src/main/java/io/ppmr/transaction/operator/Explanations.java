package io.ppmr.transaction.operator;

import io.ppmr.transaction.rules.CoordinatorRules;
import io.ppmr.transaction.rules.CoordinatorState;
import io.ppmr.transaction.rules.CoordinatorState.CoordinatorPhase;
import io.ppmr.transaction.rules.CoordinatorState.Member;
import io.ppmr.transaction.rules.ParticipantState;
import java.util.Collection;
import java.util.List;

/** Explains which ranks are held and why. {@link OperatorRules} explains what an operator's decision would mean. */
public final class Explanations {
    private Explanations() {}

    /** Explains what is held at the source and why, or returns null if the migration only needs time. */
    public static String heldAtCoordinator(CoordinatorState state, Collection<String> unreached) {
        List<String> missing =
                awaited(state).stream().filter(unreached::contains).toList();
        String resolve = "`ppmr resolve " + state.migrationId();
        if (state.phase() == CoordinatorPhase.BROKEN) {
            return "BROKEN: an original is gone (" + state.reason()
                    + "); those of the others that are held stay held until " + resolve + " --rollback`"
                    + (CoordinatorRules.mayCommitBroken(state) ? " or " + resolve + " --commit`" : "");
        }
        if (missing.isEmpty()) {
            return null;
        }
        return switch (state.phase()) {
            case CONFIRMING ->
                "IN DOUBT: originals and copies are held until " + missing + " can be reached; if such a node is"
                        + " off permanently: " + resolve + " --rollback --target-is-off NAME`";
            case COMMITTING ->
                "committed, but the copies on " + missing
                        + " stay held until the decision reaches them; if such a node is" + " off permanently: "
                        + resolve
                        + " --commit --target-is-off NAME`";
            case ROLLING_BACK ->
                "rolled back, but the originals stay held until " + missing + " can be reached or are"
                        + " fenced: they have, or may have, voted, and their copies must not run beside the"
                        + " originals; if such a node is off: " + resolve + " --rollback --target-is-off NAME`";
            default -> null;
        };
    }

    /** Lists the participants whose answer the coordinator waits for. */
    public static List<String> awaited(CoordinatorState state) {
        return state.members().stream()
                .filter(member -> isAwaited(state.phase(), member))
                .map(Member::name)
                .toList();
    }

    private static boolean isAwaited(CoordinatorPhase phase, Member member) {
        return switch (phase) {
            case CONFIRMING -> !member.confirmed();
            case COMMITTING -> !member.answered();
            case ROLLING_BACK -> member.sealed() && !member.answered();
            default -> false;
        };
    }

    /** Explains what is held at a target and why, or returns null if the migration only needs time. */
    public static String heldAtParticipant(ParticipantState state, String source, boolean fence) {
        String resolve = "`ppmr resolve " + state.migrationId();
        return switch (state.phase()) {
            case PREPARED -> state.sourceLost() ? heldPrepared(state, source, fence, resolve) : null;
            case TAKEN_OVER ->
                state.isFirst()
                        ? "IN DOUBT: the copies here are held until these targets report their state: "
                                + state.silent() + "; if one is off permanently, its copies are lost: " + resolve
                                + " --rollback --target-is-off NAME` gives the computation up"
                        : "IN DOUBT: the copies here are held until "
                                + state.participants().get(0) + " decides: " + resolve + " --commit` there";
            case COMMITTED ->
                state.done()
                        ? null
                        : "committed here, but these targets have not confirmed yet, and their copies stay held: "
                                + state.silent() + "; if one is off permanently: " + resolve
                                + " --commit --target-is-off NAME`";
            case ROLLED_BACK ->
                state.done()
                        ? null
                        : "rolled back here, but these targets have not confirmed yet, and their copies stay held: "
                                + state.silent() + "; if one is off permanently: " + resolve
                                + " --rollback --target-is-off NAME`";
            default -> null;
        };
    }

    private static String heldPrepared(ParticipantState state, String source, boolean fence, String resolve) {
        String held = "IN DOUBT: the copies here are held, because the source (" + source + ") does not answer; ";
        if (!state.isFirst()) {
            return held + "the first target, " + state.participants().get(0) + ", can take over: " + resolve
                    + " --commit` there";
        }
        return held
                + (fence
                        ? "the fence has not proved it off; " + resolve + " --commit` runs it again, or with"
                                + " --source-is-off takes over at once"
                        : "there is no fence command to prove it off; " + resolve
                                + " --commit --source-is-off` takes over");
    }
}
