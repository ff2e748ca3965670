package io.ppmr.transaction;

import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.transaction.journal.FinalOutcome;
import io.ppmr.transaction.journal.PlannedRank;
import io.ppmr.transaction.journal.TransactionRecord;
import io.ppmr.transaction.operator.Explanations;
import io.ppmr.transaction.operator.OperatorDecision;
import io.ppmr.transaction.operator.OperatorRules;
import io.ppmr.transaction.rules.CoordinatorEvent;
import io.ppmr.transaction.rules.CoordinatorEvent.OriginalsState;
import io.ppmr.transaction.rules.CoordinatorRules;
import io.ppmr.transaction.rules.CoordinatorState;
import io.ppmr.transaction.rules.CoordinatorState.CoordinatorPhase;
import io.ppmr.transaction.rules.CoordinatorState.Member;
import io.ppmr.transaction.rules.Effect;
import io.ppmr.transaction.rules.TransactionTimes;
import io.ppmr.transaction.rules.Transition;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.BooleanSupplier;

/**
 * Runs {@link CoordinatorRules} for one migration: holds the state, hands effects to the source's {@link
 * EffectExecutor}, says unanswered messages again, keeps the pause budget, and has a participant fenced that was not
 * reached for long enough. docs/internals/transaction.md.
 *
 * <p>Owned by the migration's thread, which calls {@link #tick} at {@link #nextDeadlineNs}. Times are those of a clock
 * that continues while the machine is suspended, as the participants' windows do.
 */
public final class Coordinator extends TransactionDriver<CoordinatorState> {
    /** Since when a participant has not been reached; absent while it is. */
    private final Map<String, Long> downSinceNs = new HashMap<>();

    private final Map<String, Long> nextFenceNs = new HashMap<>();
    private final Set<String> fencing = new HashSet<>();
    private long pauseEndNs = NEVER;
    /** The time at which it was last found to have been frozen. */
    private long thawedNs = Long.MIN_VALUE;

    private boolean calledOff;

    public Coordinator(String migrationId, TransactionTimes times, EffectExecutor executor) {
        super(migrationId, times, executor, CoordinatorState.fresh(migrationId));
    }

    /** Begins the migration: its first attempt is in the journal before anything is said or started. */
    public void start(List<String> participants, List<PlannedRank> originals, long now) {
        on(new CoordinatorEvent.Start(participants, originals), now);
    }

    /**
     * Goes on after a restart of the service.
     *
     * @param records those of this migration, oldest first
     */
    public void recover(List<TransactionRecord> records, long now) {
        at(now);
        CoordinatorRules.replay(migrationId, records).participants().forEach(name -> downSinceNs.put(name, now));
        takeWith(new Effect.Recover(records));
    }

    /** The originals were proved for {@link Effect.Recover}. Called while the executor carries that out. */
    public void recovered(Effect.Recover recover, OriginalsState originals) {
        found(recover, () -> CoordinatorRules.recover(migrationId, recover.records(), originals));
    }

    /**
     * The originals were proved for {@link Effect.ProveOriginals}. Called while the executor carries that out.
     *
     * @param whyNotHeld names an original that is not held, for people
     */
    public void proved(OriginalsState originals, String whyNotHeld) {
        found(
                new Effect.ProveOriginals(),
                () -> CoordinatorRules.apply(state, new CoordinatorEvent.Proved(originals, whyNotHeld)));
    }

    /** Returns whether another attempt may follow a failure, as far as it is known here. */
    public boolean mayTryAgain(Effect.Judge judge) {
        // Asked once for each attempt: a failure that follows from the first would use up the next spare.
        return isOpen()
                && !calledOff
                && nowNs < pauseEndNs
                && !judge.participant().isEmpty();
    }

    /**
     * The originals were proved for {@link Effect.Judge}. Called while the executor carries that out.
     *
     * @param next the participants of another attempt, to be sought only where {@link #mayTryAgain}; empty if there is
     *     to be none
     */
    public void judged(Effect.Judge judge, OriginalsState originals, List<String> next) {
        found(
                judge,
                () -> CoordinatorRules.apply(
                        state,
                        new CoordinatorEvent.AttemptFailure(
                                judge.reason(), judge.copiesGone(), originals, mayTryAgain(judge) ? next : List.of())));
    }

    /** An event; messages by {@link #heard}, failures by {@link #fail}. */
    public void on(CoordinatorEvent event, long now) {
        at(now);
        take(() -> CoordinatorRules.apply(state, event), event instanceof CoordinatorEvent.ParticipantMessage);
    }

    /** An event of one attempt. While an effect takes its time it waits, and is nothing to the attempt that follows. */
    public void onAttempt(int attempt, CoordinatorEvent event, long now) {
        at(now);
        take(() -> attempt == state.attempt() ? CoordinatorRules.apply(state, event) : Transition.stay(state), false);
    }

    /** A message came on the link that is up. One of a participant that is just being fenced is not heard. */
    public void heard(String participant, int attempt, ControlMessage message, long now) {
        heard(participant, attempt, message, () -> true, now);
    }

    /**
     * The same.
     *
     * @param mayDecide asked before the last vote is heard, from which the decision to commit may follow: where it
     *     gives false the vote is not heard
     */
    public void heard(String participant, int attempt, ControlMessage message, BooleanSupplier mayDecide, long now) {
        if (fencing.contains(participant)) {
            // It may be off in a moment, so it is not to be let go now and to take part in another attempt.
            return;
        }
        at(now);
        CoordinatorEvent.ParticipantMessage heard =
                new CoordinatorEvent.ParticipantMessage(participant, attempt, message);
        take(
                () -> CoordinatorRules.isLastVote(state, heard) && !mayDecide.getAsBoolean()
                        ? Transition.stay(state)
                        : CoordinatorRules.apply(state, heard),
                true);
    }

    /**
     * Something has failed in the attempt that is under way. While an effect takes its time the failure waits, and is
     * nothing to the attempt that may have followed by then.
     *
     * @param participant whose failure it is, or empty
     */
    public void fail(String reason, String participant, long now) {
        at(now);
        int attempt = state.attempt();
        take(() -> attempt == state.attempt() ? judge(reason, participant) : Transition.stay(state), false);
    }

    /** Calls the migration off, if it is not decided. */
    public void callOff(String reason, long now) {
        calledOff = true;
        at(now);
        take(() -> judge(reason, ""), false);
        on(new CoordinatorEvent.NoMoreAttempts(reason), now);
    }

    /** The originals are being held from now on: the pause budget runs. */
    public void suspended(long now) {
        pauseEndNs = times.pauseBudgetNs() == 0 ? NEVER : now + times.pauseBudgetNs();
    }

    /** A link to the participant is up, both sides have spoken on it. */
    public void linkUp(String participant, long now) {
        at(now);
        downSinceNs.remove(participant);
        nextFenceNs.remove(participant);
        CoordinatorRules.unanswered(state).stream()
                .filter(send -> isSettled() && send.participant().equals(participant))
                .forEach(this::carryOut);
    }

    /** The link to the participant is lost, and nothing more is said on it. */
    public void linkDown(String participant, long now) {
        at(now);
        downSinceNs.putIfAbsent(participant, now);
    }

    /** The fence command for the participant has ended. */
    public void fenceEnded(String participant, boolean off, long now) {
        at(now);
        fencing.remove(participant);
        nextFenceNs.put(participant, now + times.sayNs());
        if (off) {
            on(new CoordinatorEvent.Off(participant), now);
        } else {
            send("the fence command does not prove " + participant + " off; " + held());
        }
    }

    /**
     * Returns whether nothing is missing but answers of participants that are reached: it takes its time, and nothing
     * is in doubt.
     */
    public boolean isSettledByReached() {
        List<String> awaited = Explanations.awaited(state);
        return isSettled() && !awaited.isEmpty() && awaited.stream().noneMatch(downSinceNs::containsKey);
    }

    /** Returns whether {@link #resolve} would follow an operator's decision, and what it would mean. */
    public OperatorDecision.DecisionPreview ruling(OperatorDecision word, boolean hasFence) {
        return OperatorRules.ofCoordinator(writtenState(), word, downSinceNs.keySet(), hasFence);
    }

    /** An operator decides. To be called only where {@link #ruling} allows it. */
    public void resolve(OperatorDecision word, long now) {
        if (word.outcome() == FinalOutcome.ROLLED_BACK) {
            callOff("an operator has decided so", now);
        }
        on(new CoordinatorEvent.CoordinatorDecision(word.outcome()), now);
        word.targetsOff().forEach(name -> on(new CoordinatorEvent.Off(name), now));
    }

    @Override
    void before(Effect effect) {
        if (effect instanceof Effect.FenceParticipant fence) {
            fencing.add(fence.participant());
            nextFenceNs.put(fence.participant(), NEVER);
        } else if (effect instanceof Effect.Finished) {
            pauseEndNs = NEVER;
        }
    }

    @Override
    void done(Effect effect) {
        if (effect instanceof Effect.Persist persist
                && (persist.record() instanceof TransactionRecord.CommitDecided
                        || persist.record() instanceof TransactionRecord.Broken)) {
            pauseEndNs = NEVER;
        }
    }

    /** Returns true while nothing is decided. */
    private boolean isOpen() {
        return state.phase() == CoordinatorPhase.PREPARING || state.phase() == CoordinatorPhase.CONFIRMING;
    }

    private Transition<CoordinatorState> judge(String reason, String participant) {
        return isOpen()
                ? new Transition<>(state, List.of(new Effect.Judge(reason, participant, false)))
                : Transition.stay(state);
    }

    /** There is no command for {@link Effect.FenceParticipant}. Called while the executor carries that out. */
    public void notFenced(String participant) {
        fencing.remove(participant);
        send("there is no fence command to prove " + participant + " off; " + held());
    }

    @Override
    boolean resend() {
        CoordinatorRules.unanswered(state).forEach(this::carryOut);
        return !state.isOver();
    }

    /** After a suspension, a target may be about to fence this node before the lost link is detected here. */
    @Override
    void woke(long now) {
        if (wasFrozen(now)) {
            thawedNs = now;
        }
    }

    private void at(long now) {
        woke(now);
        nowNs = now;
    }

    @Override
    void timers() {
        if (nowNs >= pauseEndNs) {
            pauseEndNs = NEVER;
            callOff("the pause budget is used up", nowNs);
        }
        for (Member member : state.members()) {
            if (nowNs >= fenceDueNs(member)) {
                nextFenceNs.put(member.name(), NEVER);
                on(new CoordinatorEvent.FenceDue(member.name()), nowNs);
            }
        }
    }

    /** Returns the time from which the member may be fenced, as far as it is known now. */
    private long fenceDueNs(Member member) {
        boolean wanted = state.phase() == CoordinatorPhase.ROLLING_BACK
                && member.sealed()
                && !member.answered()
                && !fencing.contains(member.name());
        if (!wanted) {
            return NEVER;
        }
        // The first one may be about to fence this node because it counts on the others' promises.
        Member first = state.members().get(0);
        boolean firstMayShoot = first.sealed() && !first.answered() && downSinceNs.containsKey(first.name());
        long dueNs = firstMayShoot ? Math.max(harmlessNs(first), harmlessNs(member)) : harmlessNs(member);
        return Math.max(dueNs, nextFenceNs.getOrDefault(member.name(), 0L));
    }

    /** Returns the time after which an unreachable member can no longer be fencing this node. */
    private long harmlessNs(Member member) {
        Long sinceNs = downSinceNs.get(member.name());
        if (sinceNs == null || member.fenceWindowNs() < 0) {
            return NEVER;
        }
        long windowNs =
                state.members().stream().mapToLong(Member::fenceWindowNs).max().orElse(0);
        long waitNs = windowNs + member.silenceLimitNs() + times.silenceLimitNs();
        return Math.max(sinceNs, thawedNs) + waitNs + waitNs / 4;
    }

    @Override
    long ownDeadlineNs() {
        long nextNs = pauseEndNs;
        for (Member member : state.members()) {
            nextNs = Math.min(nextNs, fenceDueNs(member));
        }
        return nextNs;
    }

    @Override
    String held() {
        return Explanations.heldAtCoordinator(state, downSinceNs.keySet());
    }
}
