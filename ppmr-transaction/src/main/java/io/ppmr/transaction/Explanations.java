package io.ppmr.transaction;

import io.ppmr.transaction.CoordinatorState.Member;
import io.ppmr.transaction.CoordinatorState.Phase;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;

/** What is held and why, and what an operator's decision would mean, in words. */
final class Explanations {
    private Explanations() {}

    /** What is held at the source and why, or null where it only takes its time. */
    static String heldAtCoordinator(CoordinatorState state, Collection<String> unreached) {
        List<String> missing = state.members().stream()
                .filter(member -> isAwaited(state.phase(), member))
                .map(Member::name)
                .filter(unreached::contains)
                .toList();
        String id = "migration " + state.migrationId() + ": ";
        return switch (state.phase()) {
            case BROKEN ->
                id + "BROKEN: an original is gone (" + state.reason()
                        + "); the others stay held until `ppmr resolve " + state.migrationId() + " --rollback`"
                        + (CoordinatorRules.mayCommitBroken(state) ? " or --commit" : "");
            case CONFIRMING ->
                missing.isEmpty()
                        ? null
                        : id + "IN DOUBT: originals and copies are held until " + missing + " can be reached";
            case COMMITTING ->
                missing.isEmpty()
                        ? null
                        : id + "committed, but the copies on " + missing
                                + " stay held until they can be told; if such a"
                                + " node is off for good: `ppmr resolve " + state.migrationId()
                                + " --commit --target-is-off NAME`";
            case ROLLING_BACK ->
                missing.isEmpty()
                        ? null
                        : id + "rolled back, but the originals stay held until " + missing + " can be reached or are"
                                + " fenced: they have, or may have, voted, and their copies must not run beside the"
                                + " originals; if such a node is off: `ppmr resolve " + state.migrationId()
                                + " --rollback --target-is-off NAME`";
            default -> null;
        };
    }

    private static boolean isAwaited(Phase phase, Member member) {
        return switch (phase) {
            case CONFIRMING -> !member.confirmed();
            case COMMITTING -> !member.answered();
            case ROLLING_BACK -> member.sealed() && !member.answered();
            default -> false;
        };
    }

    static String ofCoordinator(CoordinatorState state, Outcome outcome, Collection<String> off) {
        String id = state.migrationId();
        List<String> waits = state.members().stream()
                .filter(member -> isAwaited(state.phase(), member) && !off.contains(member.name()))
                .map(Member::name)
                .toList();
        boolean commit = outcome == Outcome.COMMITTED;
        return switch (state.phase()) {
            case BROKEN -> explainBroken(state, commit);
            case COMMITTING ->
                commit
                        ? "Migration " + id + " is committed already. The ranks of " + off + " count as lost; " + waits
                                + " are told on."
                        : "Refused: migration " + id + " is committed, its originals are ended or being ended.";
            case ROLLING_BACK ->
                commit
                        ? "Refused: the rollback of migration " + id + " is decided, and may have been told already."
                        : "The originals of migration " + id + " go on as soon as these are let go: " + waits
                                + ". You say that these are off: " + off
                                + ". If one of them is not, its copies may run beside the originals.";
            case PREPARING, CONFIRMING ->
                commit
                        ? "Refused: migration " + id + " is not decided, and commits by itself when all still hold."
                        : "Migration " + id
                                + " is called off; the originals go on when all who may have voted are let go.";
            default -> "Nothing is to be decided: migration " + id + " is " + state.phase() + ".";
        };
    }

    private static String explainBroken(CoordinatorState state, boolean commit) {
        String id = state.migrationId();
        if (!commit) {
            return "An original of migration " + id + " is gone. Every copy is ended, and what is left of the originals"
                    + " goes on without it: the computation is not whole.";
        }
        return CoordinatorRules.mayCommitBroken(state)
                ? "Migration " + id + " asks every target whether its copies are still held; if all are, the originals"
                        + " that are left are ended and the copies run."
                : "Refused: not every target of migration " + id + " can have voted, or one was told to roll back.";
    }

    /** What is held at a target and why, or null where it only takes its time. */
    static String heldAtParticipant(ParticipantState state, String source, boolean fence) {
        String id = "migration " + state.migrationId() + ": ";
        return switch (state.phase()) {
            case PREPARED -> state.sourceLost() ? id + heldPrepared(state, source, fence) : null;
            case TAKEN_OVER ->
                state.isFirst()
                        ? id + "IN DOUBT: the copies here are held until these have said where they stand: "
                                + state.silent()
                        : id + "IN DOUBT: the copies here are held until "
                                + state.participants().get(0) + " decides";
            case COMMITTED ->
                state.done()
                        ? null
                        : id + "committed here, but these are not told yet, and their copies stay held: "
                                + state.silent();
            default -> null;
        };
    }

    private static String heldPrepared(ParticipantState state, String source, boolean fence) {
        String held = "IN DOUBT: the copies here are held, the source (" + source + ") does not answer; ";
        if (!state.isFirst()) {
            return held + "the first target, " + state.participants().get(0) + ", can take over";
        }
        return held
                + (fence ? "the fence has not proved it off; " : "there is no fence command to prove it off; ")
                + "`ppmr resolve " + state.migrationId() + " --commit --source-is-off` takes over";
    }

    static boolean mayResolve(ParticipantState state, Outcome outcome, boolean sourceOff, boolean firstOff) {
        boolean open =
                state.phase() == ParticipantState.Phase.PREPARED || state.phase() == ParticipantState.Phase.TAKEN_OVER;
        return open && sourceOff && (state.isFirst() || (firstOff && outcome == Outcome.ROLLED_BACK));
    }

    static String ofParticipant(
            ParticipantState state, String source, Outcome outcome, boolean sourceOff, boolean firstOff) {
        String id = state.migrationId();
        List<String> parts = new ArrayList<>();
        boolean open =
                state.phase() == ParticipantState.Phase.PREPARED || state.phase() == ParticipantState.Phase.TAKEN_OVER;
        if (!open) {
            return "Nothing is to be decided here: migration " + id + " is " + state.phase() + ".";
        }
        if (!state.isFirst() && !(firstOff && outcome == Outcome.ROLLED_BACK)) {
            return "Refused: the first target of migration " + id + " is "
                    + state.participants().get(0)
                    + "; decide there. If it is off for good, --rollback --source-is-off --first-is-off gives up what"
                    + " is held here.";
        }
        if (!sourceOff) {
            return "Refused: the source (" + source + ") must be proved off by the fence, or by your word"
                    + " (--source-is-off): if it is not, originals and copies may run at once.";
        }
        parts.add("The source (" + source + ") counts as off from now on; if it is not, originals and copies may run"
                + " at once.");
        if (!state.isFirst()) {
            parts.add("The copies here are ended.");
        } else {
            parts.add("These are asked where they stand, and held until all have said so: " + state.others() + ".");
            parts.add(
                    outcome == Outcome.COMMITTED
                            ? "If all have prepared, the copies run everywhere; if one has rolled back, all do."
                            : "If none has committed, all copies are ended and the computation is gone.");
        }
        return String.join(" ", parts);
    }
}
