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
 * Runs {@link CoordinatorRules} for one migration. It holds the state, hands effects to the source's
 * {@link EffectExecutor}, and sends unanswered messages again. It also keeps the pause budget, and fences a participant
 * that was unreachable for long enough. See docs/internals/transaction.md.
 *
 * <p>Owned by the migration's thread, which calls {@link #tick} at {@link #nextDeadlineNs}. The clock continues while
 * the machine is suspended, because the participants' windows do.
 */
public final class Coordinator extends TransactionDriver<CoordinatorState> {
    /** Time at which each unreachable participant was lost. */
    private final Map<String, Long> downSinceNs = new HashMap<>();

    private final Map<String, Long> nextFenceNs = new HashMap<>();
    private final Set<String> fencing = new HashSet<>();
    private long pauseEndNs = NEVER;
    /** The time at which this service was last found to have been frozen. */
    private long lastFrozenNs = Long.MIN_VALUE;

    private boolean calledOff;

    public Coordinator(String migrationId, TransactionTimes times, EffectExecutor executor) {
        super(migrationId, times, executor, CoordinatorState.fresh(migrationId));
    }

    /**
     * Begins the migration. The first attempt is in the journal before any message is sent or any process is started.
     */
    public void start(List<String> participants, List<PlannedRank> originals, long now) {
        on(new CoordinatorEvent.Start(participants, originals), now);
    }

    /**
     * Continues after a restart of the service.
     *
     * @param records this migration's records, oldest first
     */
    public void recover(List<TransactionRecord> records, long now) {
        advanceTo(now);
        CoordinatorRules.replay(migrationId, records).participants().forEach(name -> downSinceNs.put(name, now));
        enqueueEffect(new Effect.Recover(records));
    }

    /** Accepts the proof for {@link Effect.Recover}. Called while the executor carries out that effect. */
    public void originalsProvedForRecovery(Effect.Recover recover, OriginalsState originals) {
        enqueueResult(recover, () -> CoordinatorRules.recover(migrationId, recover.records(), originals));
    }

    /**
     * Accepts the proof for {@link Effect.ProveOriginals}. Called while the executor carries out that effect.
     *
     * @param whyNotHeld names an original that is not held, for people
     */
    public void proved(OriginalsState originals, String whyNotHeld) {
        enqueueResult(
                new Effect.ProveOriginals(),
                () -> CoordinatorRules.apply(state, new CoordinatorEvent.Proved(originals, whyNotHeld)));
    }

    /** Returns whether another attempt may follow a failure, by the knowledge of this coordinator. */
    public boolean mayTryAgain(Effect.EvaluateFailure failure) {
        // The executor queries this once for each attempt. A second failure that follows from the first would use up
        // the next spare.
        return isOpen()
                && !calledOff
                && nowNs < pauseEndNs
                && !failure.participant().isEmpty();
    }

    /**
     * Accepts the proof for {@link Effect.EvaluateFailure}. Called while the executor carries out that effect.
     *
     * @param next participants of another attempt, empty for none. The executor looks for them only if
     *     {@link #mayTryAgain}.
     */
    public void failureEvaluated(Effect.EvaluateFailure failure, OriginalsState originals, List<String> next) {
        enqueueResult(
                failure,
                () -> CoordinatorRules.apply(
                        state,
                        new CoordinatorEvent.AttemptFailure(
                                failure.reason(),
                                failure.copiesGone(),
                                originals,
                                mayTryAgain(failure) ? next : List.of())));
    }

    /** Accepts an event. Messages arrive by {@link #onMessage}, failures by {@link #fail}. */
    public void on(CoordinatorEvent event, long now) {
        advanceTo(now);
        enqueue(() -> CoordinatorRules.apply(state, event), event instanceof CoordinatorEvent.ParticipantMessage);
    }

    /**
     * Accepts an event of one attempt. The event may have to wait for an effect. If another attempt begins first, the
     * event is ignored.
     */
    public void onAttempt(int attempt, CoordinatorEvent event, long now) {
        advanceTo(now);
        enqueue(
                () -> attempt == state.attempt() ? CoordinatorRules.apply(state, event) : Transition.stay(state),
                false);
    }

    /** Accepts a message from the current link. Messages of a participant whose fence command runs are ignored. */
    public void onMessage(String participant, int attempt, ControlMessage message, long now) {
        onMessage(participant, attempt, message, () -> true, now);
    }

    /**
     * Accepts a message, and may ignore the last vote, because the decision to commit may follow from it.
     *
     * @param mayDecide returns false if the last vote must be ignored
     */
    public void onMessage(
            String participant, int attempt, ControlMessage message, BooleanSupplier mayDecide, long now) {
        if (fencing.contains(participant)) {
            // The fence may switch the participant off soon. The participant must not be released now and join another
            // attempt.
            return;
        }
        advanceTo(now);
        CoordinatorEvent.ParticipantMessage event =
                new CoordinatorEvent.ParticipantMessage(participant, attempt, message);
        enqueue(
                () -> CoordinatorRules.isLastVote(state, event) && !mayDecide.getAsBoolean()
                        ? Transition.stay(state)
                        : CoordinatorRules.apply(state, event),
                true);
    }

    /**
     * Reports a failure of the current attempt. The failure may have to wait for an effect. If another attempt begins
     * first, the failure is ignored.
     *
     * @param participant the participant that failed, or empty
     */
    public void fail(String reason, String participant, long now) {
        advanceTo(now);
        int attempt = state.attempt();
        enqueue(
                () -> attempt == state.attempt() ? evaluateFailure(reason, participant) : Transition.stay(state),
                false);
    }

    /** Calls the migration off, if nothing is decided yet. */
    public void callOff(String reason, long now) {
        calledOff = true;
        advanceTo(now);
        enqueue(() -> evaluateFailure(reason, ""), false);
        on(new CoordinatorEvent.NoMoreAttempts(reason), now);
    }

    /** Starts the pause budget. The originals are held from now on. */
    public void suspended(long now) {
        pauseEndNs = times.pauseBudgetNs() == 0 ? NEVER : now + times.pauseBudgetNs();
    }

    /** Notes that the link to the participant is up, and both sides have received a message on it. */
    public void linkUp(String participant, long now) {
        advanceTo(now);
        downSinceNs.remove(participant);
        nextFenceNs.remove(participant);
        CoordinatorRules.unanswered(state).stream()
                .filter(send -> isSettled() && send.participant().equals(participant))
                .forEach(this::carryOut);
    }

    /** Notes that the link to the participant is lost. No more messages arrive on it. */
    public void linkDown(String participant, long now) {
        advanceTo(now);
        downSinceNs.putIfAbsent(participant, now);
    }

    /** Notes the end of the fence command for the participant. */
    public void fenceEnded(String participant, boolean off, long now) {
        advanceTo(now);
        fencing.remove(participant);
        nextFenceNs.put(participant, now + times.reportNs());
        if (off) {
            on(new CoordinatorEvent.Off(participant), now);
        } else {
            report("the fence command does not prove " + participant + " off; " + describeHeld());
        }
    }

    /**
     * Returns true if only answers of reachable participants are missing. The migration needs time, and nothing is in
     * doubt.
     */
    public boolean isSettledByReached() {
        List<String> awaited = Explanations.awaited(state);
        return isSettled() && !awaited.isEmpty() && awaited.stream().noneMatch(downSinceNs::containsKey);
    }

    /** Returns whether {@link #resolve} would follow an operator's decision, and what it would mean. */
    public OperatorDecision.DecisionPreview preview(OperatorDecision decision, boolean hasFence) {
        return OperatorRules.ofCoordinator(writtenState(), decision, downSinceNs.keySet(), hasFence);
    }

    /** Follows an operator's decision. Call it only if {@link #preview} allows the decision. */
    public void resolve(OperatorDecision decision, long now) {
        if (decision.outcome() == FinalOutcome.ROLLED_BACK) {
            callOff("an operator decided", now);
        }
        on(new CoordinatorEvent.CoordinatorDecision(decision.outcome()), now);
        decision.targetsOff().forEach(name -> on(new CoordinatorEvent.Off(name), now));
    }

    @Override
    void beforeEffect(Effect effect) {
        if (effect instanceof Effect.FenceParticipant fence) {
            fencing.add(fence.participant());
            nextFenceNs.put(fence.participant(), NEVER);
        } else if (effect instanceof Effect.Finished) {
            pauseEndNs = NEVER;
        }
    }

    @Override
    void afterEffect(Effect effect) {
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

    private Transition<CoordinatorState> evaluateFailure(String reason, String participant) {
        return isOpen()
                ? new Transition<>(state, List.of(new Effect.EvaluateFailure(reason, participant, false)))
                : Transition.stay(state);
    }

    /**
     * Notes that there is no command for {@link Effect.FenceParticipant}. Called while the executor carries out that
     * effect.
     */
    public void notFenced(String participant) {
        fencing.remove(participant);
        report("there is no fence command to prove " + participant + " off; " + describeHeld());
    }

    @Override
    boolean resend() {
        CoordinatorRules.unanswered(state).forEach(this::carryOut);
        return !state.isOver();
    }

    /** After a suspension, a target may be about to fence this node before the lost link is detected here. */
    @Override
    void onClock(long now) {
        if (wasFrozen(now)) {
            lastFrozenNs = now;
        }
    }

    private void advanceTo(long now) {
        onClock(now);
        nowNs = now;
    }

    @Override
    void runTimers() {
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

    /** Returns the time from which the member may be fenced, by the present knowledge of this coordinator. */
    private long fenceDueNs(Member member) {
        boolean wanted = state.phase() == CoordinatorPhase.ROLLING_BACK
                && member.sealed()
                && !member.answered()
                && !fencing.contains(member.name());
        if (!wanted) {
            return NEVER;
        }
        // The first participant may be about to fence this node, because it relies on the others' promises.
        Member first = state.members().get(0);
        boolean firstMayFence = first.sealed() && !first.answered() && downSinceNs.containsKey(first.name());
        long dueNs = firstMayFence ? Math.max(harmlessNs(first), harmlessNs(member)) : harmlessNs(member);
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
        return Math.max(sinceNs, lastFrozenNs) + waitNs + waitNs / 4;
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
    String describeHeld() {
        return Explanations.heldAtCoordinator(state, downSinceNs.keySet());
    }
}
