package io.ppmr.transaction;

import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.transaction.journal.PlannedRank;
import io.ppmr.transaction.journal.TransactionRecord;
import io.ppmr.transaction.journal.TransactionRecord.RecordedClock;
import io.ppmr.transaction.operator.Explanations;
import io.ppmr.transaction.operator.OperatorDecision;
import io.ppmr.transaction.operator.OperatorRules;
import io.ppmr.transaction.rules.Effect;
import io.ppmr.transaction.rules.ParticipantEvent;
import io.ppmr.transaction.rules.ParticipantRules;
import io.ppmr.transaction.rules.ParticipantState;
import io.ppmr.transaction.rules.ParticipantState.Phase;
import io.ppmr.transaction.rules.TransactionTimes;
import io.ppmr.transaction.rules.Transition;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;

/**
 * Runs {@link ParticipantRules} for one migration at one target. It holds the state, hands effects to the target's
 * {@link EffectExecutor}, and sends unanswered messages again. It also keeps the fence window and the promises.
 * See
 * docs/internals/transaction.md.
 *
 * <p>Owned by the migration's thread, which calls {@link #tick} at {@link #nextDeadlineNs}. The clock continues while
 * the machine is suspended. Promises to other nodes and fence windows end at those nodes in that time, too.
 */
public final class Participant extends TransactionDriver<ParticipantState> {
    private String source = "";
    private boolean linked;
    private long lastContactNs;
    /** Time at which the source was lost, rounded to the safe side, or NEVER while the link is up. */
    private long lostNs = NEVER;

    private boolean windowUsed;
    /** The promise or the fence command's time is over. Only a new link proves that the source lives. */
    private boolean promiseOver;

    private boolean fenceOver;
    private long promiseEndNs = NEVER;
    private long fenceEndNs = NEVER;

    public Participant(String migrationId, TransactionTimes times, EffectExecutor executor) {
        super(migrationId, times, executor, ParticipantState.fresh(migrationId));
    }

    /**
     * Continues after a restart of the service. The source counts as lost from its last certain message.
     *
     * @param records this migration's records, oldest first
     * @param suspendedNs time for which this machine was suspended since its boot. The times of earlier releases
     *     are behind {@code now}'s clock by at most that.
     */
    public void recover(List<TransactionRecord> records, long now, long suspendedNs) {
        nowNs = now;
        lostNs = now - times.fenceWindowNs();
        boolean sinceKnown = true;
        for (TransactionRecord record : records) {
            if (record instanceof TransactionRecord.PreparedHere prepared) {
                source = prepared.source();
                lostNs = prepared.lastContactNs();
                sinceKnown = prepared.clock() == RecordedClock.BOOT;
            } else if (record instanceof TransactionRecord.LostSource lost) {
                lostNs = lost.atNs();
                sinceKnown = lost.clock() == RecordedClock.BOOT;
            } else if (record instanceof TransactionRecord.Promised promised) {
                promiseEndNs = latestNs(promised.untilNs(), promised.clock(), suspendedNs);
            } else if (record instanceof TransactionRecord.Fencing fence) {
                fenceEndNs = latestNs(fence.untilNs(), fence.clock(), suspendedNs);
            }
        }
        // A time of an earlier boot has no meaning, and a stopped clock does not suffice. Then the window counts as
        // past.
        windowUsed = lostNs > now || !sinceKnown || fenceEndNs != NEVER;
        // A reboot ended the copies, the promises and the fence commands. A promise of this boot keeps its own end,
        // even if the window of its requester is longer than this target's.
        boolean earlierBoot = promiseEndNs != NEVER && promiseEndNs - now > TransactionTimes.LONGEST_PROMISE_NS;
        promiseEndNs = earlierBoot ? now : promiseEndNs;
        fenceEndNs = fenceEndNs == NEVER ? NEVER : Math.min(fenceEndNs, now + times.fenceWindowNs());
        if (lostNs > now) {
            lostNs = now;
        }
        enqueue(() -> ParticipantRules.recover(migrationId, records), false);
        long atNs = lostNs;
        enqueue(() -> ParticipantRules.apply(state, new ParticipantEvent.SourceLost(atNs)), false);
    }

    /**
     * Returns a recorded time on this release's clock, and never an earlier one. The clock of an earlier release may
     * have stopped.
     */
    private static long latestNs(long untilNs, RecordedClock clock, long suspendedNs) {
        return clock == RecordedClock.BOOT ? untilNs : untilNs + suspendedNs;
    }

    /** Accepts an event. Messages arrive by {@link #onMessage} and {@link #onPeerMessage}. */
    public void on(ParticipantEvent event, long now) {
        onClock(now);
        nowNs = now;
        boolean message =
                event instanceof ParticipantEvent.CoordinatorMessage || event instanceof ParticipantEvent.PeerMessage;
        enqueue(() -> ParticipantRules.apply(state, event), message);
    }

    /**
     * Accepts a message from the coordinator on the current link. Late messages of a link that is down or was dropped
     * must not be passed.
     */
    public void onMessage(int attempt, ControlMessage message, long now) {
        onClock(now);
        nowNs = now;
        if (!linked && !isStale()) {
            linkUp(now);
        }
        if (linked) {
            lastContactNs = now;
            on(new ParticipantEvent.CoordinatorMessage(attempt, message), now);
        }
    }

    /**
     * Returns the answer to a message of the coordinator about an attempt before the present one. It is over, and the
     * message changes nothing: it proves no contact for the present attempt either.
     */
    public Optional<ControlMessage> answerAboutEarlier(int attempt, ControlMessage message) {
        if (attempt >= state.attempt()) {
            return Optional.empty();
        }
        return ParticipantRules.apply(state, new ParticipantEvent.CoordinatorMessage(attempt, message))
                .effects()
                .stream()
                .filter(Effect.Reply.class::isInstance)
                .map(effect -> ((Effect.Reply) effect).message())
                .findFirst();
    }

    /** Accepts a message from another participant. */
    public void onPeerMessage(String participant, int attempt, ControlMessage message, long now) {
        onClock(now);
        nowNs = now;
        // The event may be queued behind a full journal, so preconditions are checked when it is processed.
        enqueue(() -> handlePeerMessage(new ParticipantEvent.PeerMessage(participant, attempt, message, now)), true);
    }

    private Transition<ParticipantState> handlePeerMessage(ParticipantEvent.PeerMessage question) {
        boolean promises = question.message() instanceof ControlMessage.StatusQuery ask
                && ask.round() != 0
                && state.phase() == Phase.PREPARED;
        // A promise asserts that the copies are held. The source may be fenced on the strength of it.
        return promises
                ? new Transition<>(state, List.of(new Effect.ProveForPromise(question)))
                : ParticipantRules.apply(state, question);
    }

    /**
     * Accepts the proof for {@link Effect.ProveForPromise}. Called while the executor carries out that effect.
     *
     * @param whyNotHeld names a copy that is not held, or empty if all are
     */
    public void promiseProved(Effect.ProveForPromise effect, String whyNotHeld) {
        ParticipantEvent.PeerMessage question = effect.question();
        if (!whyNotHeld.isEmpty()) {
            report("no promise is given to " + question.participant() + ", since the copies here are not held: "
                    + whyNotHeld);
            return;
        }
        enqueueResult(effect, () -> ParticipantRules.apply(state, question));
    }

    /**
     * Accepts the proof for {@link Effect.ProveCopies}. Called while the executor carries out that effect.
     *
     * @param whyNotHeld names a copy that is not held, or empty if all are
     */
    public void copiesProved(String whyNotHeld) {
        enqueueResult(
                new Effect.ProveCopies(),
                () -> ParticipantRules.apply(state, new ParticipantEvent.CopiesProved(whyNotHeld)));
    }

    /** Votes: all copies are restored and held, and all bytes are accounted for. */
    public void copiesHeld(String sourceAddress, List<PlannedRank> copies, long now) {
        onClock(now);
        source = sourceAddress;
        on(new ParticipantEvent.CopiesHeld(sourceAddress, copies, lostForTheJournalNs(lastContactNs)), now);
    }

    /**
     * Returns the time of the loss for the journal. A frozen service does not know when the loss was. The window is
     * over also for a service that recovers from this record.
     */
    private long lostForTheJournalNs(long sinceNs) {
        return windowUsed ? sinceNs - times.fenceWindowNs() : sinceNs;
    }

    /** Notes a new link to the source. Both sides have just proved on it that they are alive. */
    public void linkUp(long now) {
        onClock(now);
        nowNs = now;
        lastContactNs = now;
        linked = true;
        lostNs = NEVER;
        windowUsed = false;
        if (promiseOver) {
            promiseOver = false;
            on(new ParticipantEvent.PromiseOver(), now);
        }
        if (fenceOver) {
            fenceOver = false;
            on(new ParticipantEvent.FenceEnded(false), now);
        }
        on(new ParticipantEvent.SourceBack(), now);
    }

    /** Returns true if the source's messages may be older than a fence that may have switched it off. */
    private boolean isStale() {
        return promiseOver || fenceOver;
    }

    private void dropLink() {
        carryOut(new Effect.DropSourceLink());
        linkDown(nowNs);
    }

    /** Notes that the link to the source is lost. */
    public void linkDown(long now) {
        onClock(now);
        nowNs = now;
        if (linked) {
            linked = false;
            lostNs = now;
            on(new ParticipantEvent.SourceLost(lostForTheJournalNs(now)), now);
        }
    }

    /** Notes the end of the fence command. {@code off} means that it proves the source off. */
    public void fenceEnded(boolean off, long now) {
        nowNs = now;
        fenceEndNs = NEVER;
        if (off) {
            fenceOver = false;
            on(new ParticipantEvent.FenceEnded(true), now);
            return;
        }
        // The fence may have worked all the same. The source's messages count again only on a new link.
        fenceOver = true;
        dropLink();
        String text = describeHeld();
        report("the fence command does not prove the source off" + (text == null ? "" : "; " + text));
    }

    /** Returns whether {@link #resolve} would follow an operator's decision, and what it would mean. */
    public OperatorDecision.DecisionPreview preview(OperatorDecision decision) {
        return OperatorRules.ofParticipant(state, decision, source, times.fenceWindowNs() != 0);
    }

    /**
     * Follows an operator's decision. Call it only if {@link #preview} allows the decision. If the decision needs the
     * fence's proof, a fence window opens: the others are queried for their promise, then the command runs. Its success
     * leads to a commit.
     */
    public void resolve(OperatorDecision decision, long now) {
        if (preview(decision).how() == OperatorDecision.DecisionPreview.How.AFTER_FENCE) {
            seekProof(now);
            return;
        }
        on(new ParticipantEvent.ParticipantDecision(decision.outcome(), decision.firstOff()), now);
        decision.targetsOff().forEach(name -> on(new ParticipantEvent.PeerOff(name), now));
    }

    private void seekProof(long now) {
        nowNs = now;
        if (state.fencing() && !fenceOver) {
            // The command may be running already.
            return;
        }
        windowUsed = true;
        if (state.fencing()) {
            // The last command proved nothing. As before, the source's messages count only on a new link.
            on(new ParticipantEvent.FenceEnded(false), now);
        }
        long endNs = now + times.fenceWindowNs();
        on(new ParticipantEvent.SourceFenceDue(endNs, promiseNs(endNs)), now);
    }

    /** Returns true if a fence window is open. The others' promises are missing, or the command runs. */
    public boolean isSeekingProof() {
        return state.phase() == Phase.PREPARED && (state.fencing() ? !fenceOver : state.round() != 0);
    }

    @Override
    void beforeEffect(Effect effect) {
        if (effect instanceof Effect.StartRestore start) {
            long fenceWindowMs = TimeUnit.NANOSECONDS.toMillis(times.fenceWindowNs());
            long silenceLimitMs = TimeUnit.NANOSECONDS.toMillis(times.silenceLimitNs());
            // Accept is sent first, so that the source does not wait until all restarts are started.
            carryOut(new Effect.Reply(
                    start.attempt(), new ControlMessage.Accept(nowNs, fenceWindowMs, silenceLimitMs, "")));
        } else if (effect instanceof Effect.FenceSource) {
            fenceEndNs = state.round();
            fenceOver = false;
        }
    }

    @Override
    void afterEffect(Effect effect) {
        if (effect instanceof Effect.Persist persist
                && persist.record() instanceof TransactionRecord.Promised promised) {
            promiseEndNs = promiseEndNs == NEVER ? promised.untilNs() : Math.max(promiseEndNs, promised.untilNs());
        }
    }

    /** Returns the node that the fence command of {@link Effect.FenceSource} is for. */
    public String source() {
        return source;
    }

    /** Returns the time after which that command must not be started. Check it right before the start. */
    public long fenceEndNs() {
        return fenceEndNs;
    }

    /**
     * Notes that the command of {@link Effect.FenceSource} was not started. Called while the executor carries out that
     * effect.
     *
     * @param whyNotHeld names a copy that is not held, or empty if there is no command
     */
    public void notFenced(String whyNotHeld) {
        if (!whyNotHeld.isEmpty()) {
            report("the source is not fenced, because the copies here are no longer held: " + whyNotHeld);
        }
        fenceEndNs = NEVER;
        enqueueResult(
                new Effect.FenceSource(), () -> ParticipantRules.apply(state, new ParticipantEvent.FenceEnded(false)));
    }

    @Override
    boolean resend() {
        ParticipantRules.unanswered(state).forEach(this::carryOut);
        if (state.phase() == Phase.PREPARED && state.round() != 0 && !state.fencing()) {
            // A peer that answered already is queried again, because its promise must not be older than the window.
            state.silent()
                    .forEach(name ->
                            carryOut(ParticipantRules.ask(state, name, state.round(), promiseNs(state.round()))));
        }
        return state.phase() == Phase.PREPARED || state.phase() == Phase.TAKEN_OVER || !state.done();
    }

    /**
     * Closes the fence window after a freeze. A frozen service does not know when the source was lost, so a fence needs
     * a new link.
     */
    @Override
    void onClock(long now) {
        if (wasFrozen(now) && !state.done()) {
            windowUsed = true;
        }
    }

    @Override
    void runTimers() {
        if (nowNs >= promiseEndNs) {
            promiseEndNs = NEVER;
            promiseOver = true;
            dropLink();
        }
        if (nowNs >= windowOpenNs()) {
            windowUsed = true;
            long endNs = lostNs + times.fenceWindowNs();
            on(new ParticipantEvent.SourceFenceDue(endNs, promiseNs(endNs)), nowNs);
        }
        if (state.round() != 0 && !state.fencing() && nowNs >= state.round()) {
            on(new ParticipantEvent.FenceWindowOver(), nowNs);
        }
        if (state.fencing() && !fenceOver && nowNs - times.silenceLimitNs() >= fenceEndNs) {
            // The command's time is over. This service may have been restarted since the command's start.
            fenceEnded(false, nowNs);
        }
    }

    /** Returns the time from which this participant may fence the source: within its window only, and once in each. */
    private long windowOpenNs() {
        boolean mayFence = state.phase() == Phase.PREPARED
                && state.isFirst()
                && state.sourceLost()
                && !windowUsed
                && lostNs != NEVER
                && times.fenceWindowNs() != 0
                && nowNs < lostNs + times.fenceWindowNs();
        return mayFence ? lostNs + times.fenceDelayNs() : NEVER;
    }

    /** Returns the rest of the window and a quarter more, because clocks differ. */
    private long promiseNs(long endNs) {
        long leftNs = Math.max(0, endNs - nowNs) + times.silenceLimitNs();
        return leftNs + leftNs / 4;
    }

    @Override
    long ownDeadlineNs() {
        long nextNs = Math.min(promiseEndNs, windowOpenNs());
        if (state.round() != 0 && !state.fencing()) {
            nextNs = Math.min(nextNs, state.round());
        }
        if (state.fencing() && !fenceOver && fenceEndNs != NEVER) {
            nextNs = Math.min(nextNs, fenceEndNs + times.silenceLimitNs());
        }
        return nextNs;
    }

    @Override
    long startOfHoldNs() {
        return lostNs == NEVER ? super.startOfHoldNs() : lostNs;
    }

    @Override
    String describeHeld() {
        return Explanations.heldAtParticipant(state, source, times.fenceWindowNs() != 0);
    }
}
