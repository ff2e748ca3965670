package io.ppmr.transaction.rules;

import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.protocol.control.ControlMessage.Commit;
import io.ppmr.protocol.control.ControlMessage.Confirm;
import io.ppmr.protocol.control.ControlMessage.RollBack;
import io.ppmr.transaction.journal.FinalOutcome;
import io.ppmr.transaction.journal.PlannedRank;
import io.ppmr.transaction.journal.TransactionRecord;
import io.ppmr.transaction.rules.CoordinatorEvent.OriginalsState;
import io.ppmr.transaction.rules.CoordinatorState.CoordinatorPhase;
import io.ppmr.transaction.rules.CoordinatorState.Member;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

/**
 * The coordinator's table of docs/internals/transaction.md as a pure function: no clock, no input or output. An event
 * without a row in the table changes nothing.
 */
public final class CoordinatorRules {
    private CoordinatorRules() {}

    /** Applies an event. */
    public static Transition<CoordinatorState> apply(CoordinatorState state, CoordinatorEvent event) {
        if (event instanceof CoordinatorEvent.ParticipantMessage received) {
            boolean known = received.attempt() == state.attempt() && state.member(received.participant()) != null;
            return known ? onMessage(state, received.participant(), received.message()) : Transition.stay(state);
        }
        if (event instanceof CoordinatorEvent.Start start) {
            return state.phase() == CoordinatorPhase.NEW
                    ? begin(state, 1, start.participants(), start.originals())
                    : Transition.stay(state);
        }
        if (event instanceof CoordinatorEvent.ImageComplete complete) {
            return imageComplete(state, complete);
        }
        if (event instanceof CoordinatorEvent.AttemptFailure failed) {
            return onFailure(state, failed);
        }
        if (event instanceof CoordinatorEvent.Proved proved) {
            return proved(state, proved);
        }
        if (event instanceof CoordinatorEvent.NoMoreAttempts last) {
            return state.next().isEmpty()
                    ? Transition.stay(state)
                    : Transition.of(state.withNext(List.of()).failed(last.reason()));
        }
        if (event instanceof CoordinatorEvent.FenceDue due) {
            Member member = state.member(due.participant());
            boolean isDue = state.phase() == CoordinatorPhase.ROLLING_BACK && member != null && isUnreleased(member);
            return isDue
                    ? Transition.of(state, new Effect.FenceParticipant(due.participant()))
                    : Transition.stay(state);
        }
        if (event instanceof CoordinatorEvent.Off off) {
            return onNodeOff(state, off.participant());
        }
        return resolve(state, ((CoordinatorEvent.CoordinatorDecision) event).outcome());
    }

    /** Returns the messages that wait for an answer. They are sent again until the answer comes. */
    public static List<Effect.Send> unanswered(CoordinatorState state) {
        List<Effect.Send> sends = new ArrayList<>();
        for (Member member : state.members()) {
            ControlMessage message =
                    switch (state.phase()) {
                        case CONFIRMING -> member.confirmed() ? null : new Confirm(state.migrationId());
                        case COMMITTING -> member.answered() ? null : new Commit(state.migrationId());
                        case ROLLING_BACK ->
                            member.answered() ? null : new RollBack(state.migrationId(), state.reason());
                        default -> null;
                    };
            if (message != null) {
                sends.add(new Effect.Send(member.name(), state.attempt(), message));
            }
        }
        return sends;
    }

    private static Transition<CoordinatorState> begin(
            CoordinatorState state, int attempt, List<String> participants, List<PlannedRank> originals) {
        return Transition.of(
                state.preparing(attempt, participants, originals),
                new Effect.Persist(new TransactionRecord.Begun(state.migrationId(), attempt, participants, originals)),
                new Effect.StartAttempt(attempt, participants));
    }

    private static Transition<CoordinatorState> imageComplete(
            CoordinatorState state, CoordinatorEvent.ImageComplete complete) {
        Member member = state.member(complete.participant());
        if (state.phase() != CoordinatorPhase.PREPARING || member == null || member.sealed()) {
            return Transition.stay(state);
        }
        return Transition.of(
                state.with(member.name(), Member::withSealed).holding(complete.held()),
                new Effect.Persist(new TransactionRecord.Sealed(
                        state.migrationId(),
                        state.attempt(),
                        member.name(),
                        complete.held(),
                        member.fenceWindowNs(),
                        member.silenceLimitNs())),
                new Effect.Seal(member.name()));
    }

    private static Transition<CoordinatorState> onMessage(CoordinatorState state, String from, ControlMessage message) {
        if (message instanceof ControlMessage.Accept accept) {
            long fenceWindowNs = TimeUnit.MILLISECONDS.toNanos(accept.fenceWindowMs());
            long silenceLimitNs = TimeUnit.MILLISECONDS.toNanos(accept.silenceLimitMs());
            return Transition.of(state.with(from, member -> member.withWindow(fenceWindowNs, silenceLimitNs)));
        }
        if (message instanceof ControlMessage.Prepared) {
            return onVote(state, from);
        }
        if (message instanceof ControlMessage.StillHeld) {
            if (state.phase() != CoordinatorPhase.CONFIRMING) {
                return Transition.stay(state);
            }
            CoordinatorState next = state.with(from, member -> member.withConfirmed(true));
            // All copies are held. The decision follows if the originals are proved to be held now, too.
            return next.all(Member::confirmed) ? Transition.of(next, new Effect.ProveOriginals()) : Transition.of(next);
        }
        if (message instanceof ControlMessage.NotHeld not) {
            return isOpen(state) ? evaluateFailure(state, from, not.reason()) : Transition.stay(state);
        }
        if (message instanceof ControlMessage.Committed) {
            return onCommitted(state, from);
        }
        if (message instanceof ControlMessage.RolledBack back) {
            return onRolledBack(state, from, back.reason());
        }
        return Transition.stay(state);
    }

    private static Transition<CoordinatorState> proved(CoordinatorState state, CoordinatorEvent.Proved proved) {
        if (state.phase() == CoordinatorPhase.ROLLING_BACK && allReleased(state)) {
            return release(state, proved.originals());
        }
        if (state.phase() != CoordinatorPhase.CONFIRMING) {
            return Transition.stay(state);
        }
        if (proved.originals() == OriginalsState.ALIVE) {
            // The original ran after its image was written. Its copy would do that work a second time.
            return rollBack(state.withNext(List.of()).failed(proved.reason()), false);
        }
        // If an original is gone, only the copies can continue the computation.
        return state.all(Member::confirmed) ? decideCommit(state) : Transition.stay(state);
    }

    /** Returns true if this is the last missing vote. The decision to commit may follow from it. */
    public static boolean isLastVote(CoordinatorState state, CoordinatorEvent.ParticipantMessage received) {
        return received.message() instanceof ControlMessage.Prepared
                && received.attempt() == state.attempt()
                && state.member(received.participant()) != null
                && apply(state, received).state().phase() == CoordinatorPhase.CONFIRMING
                && state.phase() == CoordinatorPhase.PREPARING;
    }

    private static Transition<CoordinatorState> onVote(CoordinatorState state, String from) {
        if (state.phase() != CoordinatorPhase.PREPARING || !state.member(from).sealed()) {
            return Transition.stay(state);
        }
        CoordinatorState next = state.with(from, Member::withVote);
        return next.all(Member::voted) ? confirm(next) : Transition.of(next);
    }

    private static Transition<CoordinatorState> onCommitted(CoordinatorState state, String from) {
        return switch (state.phase()) {
            case COMMITTING -> onAnswer(state, from, false);
            // A take-over committed, because it found this node off. A take-over needs the votes of all participants.
            case PREPARING, CONFIRMING, ROLLING_BACK, BROKEN ->
                state.all(Member::sealed)
                        ? decideCommit(state)
                        : Transition.of(
                                state,
                                new Effect.Report(from + " reports a commit, although not every image was whole."
                                        + " The report is ignored; check that node, which is faulty"));
            case ROLLED_BACK ->
                Transition.of(
                        state, new Effect.Report(from + " reports a commit of an attempt that was rolled back here"));
            default -> Transition.stay(state);
        };
    }

    private static Transition<CoordinatorState> onRolledBack(CoordinatorState state, String from, String reason) {
        return switch (state.phase()) {
            case PREPARING, CONFIRMING -> evaluateFailure(state, from, reason);
            case ROLLING_BACK -> state.member(from).answered() ? Transition.stay(state) : onAnswer(state, from, false);
            case COMMITTING -> onAnswer(state, from, true);
            default -> Transition.stay(state);
        };
    }

    private static Transition<CoordinatorState> evaluateFailure(CoordinatorState state, String from, String reason) {
        return Transition.of(state, new Effect.EvaluateFailure(from + ": " + reason, from, true));
    }

    private static Transition<CoordinatorState> onFailure(
            CoordinatorState state, CoordinatorEvent.AttemptFailure failed) {
        if (!isOpen(state)) {
            return Transition.stay(state);
        }
        if (failed.originals() != OriginalsState.DEAD) {
            return rollBack(state.withNext(failed.next()).failed(failed.reason()), false);
        }
        if (state.phase() == CoordinatorPhase.CONFIRMING && !failed.copiesGone()) {
            // Only the copies are left. The coordinator waits for an unreachable voter.
            return Transition.stay(state);
        }
        return enterBroken(state.failed(failed.reason()));
    }

    private static Transition<CoordinatorState> enterBroken(CoordinatorState state) {
        return Transition.of(
                state.in(CoordinatorPhase.BROKEN).withNext(List.of()),
                new Effect.Persist(new TransactionRecord.Broken(state.migrationId(), state.attempt(), state.reason())),
                new Effect.StopAttempt(state.attempt(), state.reason()),
                new Effect.Report("an original is gone; the other held originals stay held until ppmr resolve decides: "
                        + state.reason()));
    }

    private static Transition<CoordinatorState> rollBack(CoordinatorState state, boolean byOperator) {
        CoordinatorState next = state.rollingBack(byOperator).withEach(Member::undecided);
        return sendUnanswered(
                next,
                new Effect.Persist(new TransactionRecord.RollBackDecided(
                        state.migrationId(), state.attempt(), state.reason(), byOperator)),
                new Effect.StopAttempt(state.attempt(), state.reason()));
    }

    private static Transition<CoordinatorState> sendUnanswered(CoordinatorState state, Effect... effects) {
        Transition<CoordinatorState> sent = Transition.of(state, effects).and(unanswered(state));
        return allReleased(state) ? sent.and(new Effect.ProveOriginals()) : sent;
    }

    private static Transition<CoordinatorState> release(CoordinatorState state, OriginalsState originals) {
        if (originals == OriginalsState.DEAD && !state.byOperator()) {
            return enterBroken(state.failed("an original died during the rollback; " + state.reason()));
        }
        if (originals != OriginalsState.DEAD && !state.next().isEmpty()) {
            return begin(state, state.attempt() + 1, state.next(), state.originalsOf(state.next()));
        }
        return Transition.of(
                state.in(CoordinatorPhase.ROLLED_BACK),
                new Effect.ContinueOriginals(),
                new Effect.Resume(),
                new Effect.Persist(done(state, FinalOutcome.ROLLED_BACK)),
                new Effect.Finished(FinalOutcome.ROLLED_BACK, state.reason()));
    }

    private static Transition<CoordinatorState> confirm(CoordinatorState state) {
        CoordinatorState next = state.in(CoordinatorPhase.CONFIRMING).withEach(member -> member.withConfirmed(false));
        return Transition.of(next).and(unanswered(next)).and(new Effect.ProveOriginals());
    }

    private static Transition<CoordinatorState> decideCommit(CoordinatorState state) {
        return carryOutCommit(
                state, new Effect.Persist(new TransactionRecord.CommitDecided(state.migrationId(), state.attempt())));
    }

    private static Transition<CoordinatorState> carryOutCommit(CoordinatorState state, Effect... decided) {
        CoordinatorState next =
                state.in(CoordinatorPhase.COMMITTING).withNext(List.of()).withEach(Member::undecided);
        return Transition.of(next, decided).and(new Effect.EndOriginals()).and(unanswered(next));
    }

    private static Transition<CoordinatorState> onNodeOff(CoordinatorState state, String participant) {
        if (state.member(participant) == null) {
            return Transition.stay(state);
        }
        return switch (state.phase()) {
            case ROLLING_BACK -> onAnswer(state, participant, false);
            case COMMITTING -> onAnswer(state, participant, true);
            default -> Transition.stay(state);
        };
    }

    /** Notes that the participant has answered the decision, or need not. The phase is COMMITTING or ROLLING_BACK. */
    private static Transition<CoordinatorState> onAnswer(CoordinatorState state, String participant, boolean lost) {
        if (state.member(participant).answered()) {
            return Transition.stay(state);
        }
        CoordinatorState next = state.with(participant, member -> member.withAnswer(lost));
        List<Effect> effects = new ArrayList<>();
        if (lost) {
            effects.add(new Effect.Report("the ranks of " + participant + " are lost"));
        }
        if (state.phase() == CoordinatorPhase.ROLLING_BACK) {
            if (allReleased(next) && state.member(participant).sealed()) {
                effects.add(new Effect.ProveOriginals());
            }
            return new Transition<>(next, effects);
        }
        if (!next.all(Member::answered)) {
            return new Transition<>(next, effects);
        }
        effects.add(new Effect.Reconnect());
        effects.add(new Effect.Persist(done(next, FinalOutcome.COMMITTED)));
        effects.add(new Effect.Finished(FinalOutcome.COMMITTED, ""));
        return new Transition<>(next.in(CoordinatorPhase.COMMITTED), effects);
    }

    private static Transition<CoordinatorState> resolve(CoordinatorState state, FinalOutcome outcome) {
        boolean doubt = state.phase() == CoordinatorPhase.BROKEN || state.phase() == CoordinatorPhase.CONFIRMING;
        if (doubt && outcome == FinalOutcome.ROLLED_BACK) {
            return rollBack(state, true);
        }
        return state.phase() == CoordinatorPhase.BROKEN && mayCommitBroken(state)
                ? confirm(state)
                : Transition.stay(state);
    }

    /**
     * Returns true if {@code resolve --commit} is possible: all may have voted, and no participant can have received a
     * rollback.
     */
    public static boolean mayCommitBroken(CoordinatorState state) {
        return state.all(Member::sealed) && !state.rollBackDecided();
    }

    /**
     * Returns the first transition of a restarted coordinator.
     *
     * @param records this migration's records, in order
     * @param originals state of the originals, proved just now
     */
    public static Transition<CoordinatorState> recover(
            String migrationId, List<TransactionRecord> records, OriginalsState originals) {
        CoordinatorState state = replay(migrationId, records);
        return switch (state.phase()) {
            case COMMITTING -> carryOutCommit(state);
            // If the originals are gone, only the copies are left, and a take-over may be about to release them.
            case ROLLING_BACK ->
                originals == OriginalsState.DEAD && !state.byOperator()
                        ? enterBroken(state.failed("an original died during the rollback; " + state.reason()))
                        : sendUnanswered(state);
            case PREPARING -> recoverUndecided(state.failed("the source's service was restarted"), originals);
            default -> Transition.of(state);
        };
    }

    private static Transition<CoordinatorState> recoverUndecided(CoordinatorState state, OriginalsState originals) {
        if (originals != OriginalsState.DEAD) {
            return rollBack(state, false);
        }
        return state.all(Member::sealed) ? confirm(state) : enterBroken(state);
    }

    /**
     * Returns the state that the coordinator had when its service ended, from the migration's records, oldest first.
     */
    public static CoordinatorState replay(String migrationId, List<TransactionRecord> records) {
        CoordinatorState state = CoordinatorState.fresh(migrationId);
        for (TransactionRecord record : records) {
            if (record instanceof TransactionRecord.Begun begun) {
                state = state.preparing(begun.attempt(), begun.participants(), begun.originals());
            } else if (record instanceof TransactionRecord.Sealed sealed) {
                state = state.with(sealed.participant(), member -> member.withSealed()
                                .withWindow(sealed.fenceWindowNs(), sealed.silenceLimitNs()))
                        .holding(sealed.held());
            } else if (record instanceof TransactionRecord.CommitDecided) {
                state = state.in(CoordinatorPhase.COMMITTING);
            } else if (record instanceof TransactionRecord.RollBackDecided back) {
                state = state.failed(back.reason()).rollingBack(back.byOperator());
            } else if (record instanceof TransactionRecord.Broken broken) {
                state = state.failed(broken.reason()).in(CoordinatorPhase.BROKEN);
            } else if (record instanceof TransactionRecord.Done done) {
                state = state.in(
                        done.outcome() == FinalOutcome.COMMITTED
                                ? CoordinatorPhase.COMMITTED
                                : CoordinatorPhase.ROLLED_BACK);
            }
        }
        return state;
    }

    /** Returns true in PREPARING and CONFIRMING, where nothing is decided yet. */
    private static boolean isOpen(CoordinatorState state) {
        return state.phase() == CoordinatorPhase.PREPARING || state.phase() == CoordinatorPhase.CONFIRMING;
    }

    private static boolean isUnreleased(Member member) {
        return member.sealed() && !member.answered();
    }

    private static boolean allReleased(CoordinatorState state) {
        return state.members().stream().noneMatch(CoordinatorRules::isUnreleased);
    }

    private static TransactionRecord done(CoordinatorState state, FinalOutcome outcome) {
        return new TransactionRecord.Done(state.migrationId(), state.attempt(), outcome, state.reason());
    }
}
