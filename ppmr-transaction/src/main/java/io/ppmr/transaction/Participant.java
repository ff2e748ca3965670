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
import java.util.concurrent.TimeUnit;

/**
 * Runs {@link ParticipantRules} for one migration at one target: holds the state, hands effects to the target's {@link
 * EffectExecutor}, says unanswered messages again, and keeps the fence window and the promises.
 * docs/internals/transaction.md.
 *
 * <p>Owned by the migration's thread, which calls {@link #tick} at {@link #nextDeadlineNs}. Times are those of a clock
 * that continues while the machine is suspended: what is promised to other nodes, and the window in which one may be
 * fenced, end for them, too.
 */
public final class Participant extends TransactionDriver<ParticipantState> {
    private String source = "";
    private boolean linked;
    private long heardNs;
    /** Since when the source is lost, on the safe side; NEVER while it is not. */
    private long lostNs = NEVER;

    private boolean windowUsed;
    /** The promise, or the fence command's time, is over; the source has to show that it lives. */
    private boolean promiseOver;

    private boolean fenceOver;
    private long promiseEndNs = NEVER;
    private long fenceEndNs = NEVER;

    public Participant(String migrationId, TransactionTimes times, EffectExecutor executor) {
        super(migrationId, times, executor, ParticipantState.nothing(migrationId));
    }

    /**
     * Goes on after a restart of the service. The source counts as lost from when it was last heard for certain.
     *
     * @param records those of this migration, oldest first
     * @param suspendedNs how long this machine has been suspended since its boot, by which earlier releases' times are
     *     behind {@code now}'s clock at most
     */
    public void recover(List<TransactionRecord> records, long now, long suspendedNs) {
        nowNs = now;
        lostNs = now - times.fenceWindowNs();
        boolean sinceKnown = true;
        for (TransactionRecord record : records) {
            if (record instanceof TransactionRecord.PreparedHere prepared) {
                source = prepared.source();
                lostNs = prepared.heardNs();
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
        // A clock of an earlier boot says nothing, and one that has been stopped not enough: the window counts as past.
        windowUsed = lostNs > now || !sinceKnown || fenceEndNs != NEVER;
        // A boot that is over has ended its copies, its promises and its fence commands. One of this boot ends when it
        // was promised to, also where this target's own window is shorter than that of who asked for it.
        boolean earlierBoot = promiseEndNs != NEVER && promiseEndNs - now > TransactionTimes.LONGEST_PROMISE_NS;
        promiseEndNs = earlierBoot ? now : promiseEndNs;
        fenceEndNs = fenceEndNs == NEVER ? NEVER : Math.min(fenceEndNs, now + times.fenceWindowNs());
        if (lostNs > now) {
            lostNs = now;
        }
        take(() -> ParticipantRules.recover(migrationId, records), false);
        long atNs = lostNs;
        take(() -> ParticipantRules.apply(state, new ParticipantEvent.SourceLost(atNs)), false);
    }

    /** A time on the clock of this release, and no earlier than was meant: that of an earlier one may have stopped. */
    private static long latestNs(long untilNs, RecordedClock clock, long suspendedNs) {
        return clock == RecordedClock.BOOT ? untilNs : untilNs + suspendedNs;
    }

    /** An event; messages by {@link #heard} and {@link #heardPeer}. */
    public void on(ParticipantEvent event, long now) {
        woke(now);
        nowNs = now;
        boolean message =
                event instanceof ParticipantEvent.CoordinatorMessage || event instanceof ParticipantEvent.PeerMessage;
        take(() -> ParticipantRules.apply(state, event), message);
    }

    /**
     * A message of the coordinator, on the link that is up. Not to be called for what comes late on a link that is down
     * or was dropped.
     */
    public void heard(int attempt, ControlMessage message, long now) {
        woke(now);
        nowNs = now;
        if (!linked && !isStale()) {
            linkUp(now);
        }
        if (linked) {
            heardNs = now;
            on(new ParticipantEvent.CoordinatorMessage(attempt, message), now);
        }
    }

    /** A message of another participant. */
    public void heardPeer(String participant, int attempt, ControlMessage message, long now) {
        woke(now);
        nowNs = now;
        // The event may be queued behind a full journal, so preconditions are checked when it is processed.
        take(() -> hearPeer(new ParticipantEvent.PeerMessage(participant, attempt, message, now)), true);
    }

    private Transition<ParticipantState> hearPeer(ParticipantEvent.PeerMessage heard) {
        boolean promises = heard.message() instanceof ControlMessage.StatusQuery ask
                && ask.round() != 0
                && state.phase() == Phase.PREPARED;
        // A promise asserts that the copies are held; the source may be fenced on the strength of it.
        return promises
                ? new Transition<>(state, List.of(new Effect.ProveForPromise(heard)))
                : ParticipantRules.apply(state, heard);
    }

    /**
     * The copies were proved for {@link Effect.ProveForPromise}. Called while the executor carries that out.
     *
     * @param whyNotHeld names a copy that is not held; empty if all are
     */
    public void promiseProved(Effect.ProveForPromise effect, String whyNotHeld) {
        ParticipantEvent.PeerMessage heard = effect.heard();
        if (!whyNotHeld.isEmpty()) {
            send("no promise is given to " + heard.participant() + ", since the copies here are not held: "
                    + whyNotHeld);
            return;
        }
        found(effect, () -> ParticipantRules.apply(state, heard));
    }

    /**
     * The copies were proved for {@link Effect.ProveCopies}. Called while the executor carries that out.
     *
     * @param whyNotHeld names a copy that is not held; empty if all are
     */
    public void copiesProved(String whyNotHeld) {
        found(
                new Effect.ProveCopies(),
                () -> ParticipantRules.apply(state, new ParticipantEvent.CopiesProved(whyNotHeld)));
    }

    /** All copies are restored and held, all bytes accounted for: the vote. */
    public void copiesHeld(String sourceAddress, List<PlannedRank> copies, long now) {
        woke(now);
        source = sourceAddress;
        on(new ParticipantEvent.CopiesHeld(sourceAddress, copies, lostForTheJournalNs(heardNs)), now);
    }

    /** A service that was frozen does not know since when: for one that recovers after it the window is past, too. */
    private long lostForTheJournalNs(long sinceNs) {
        return windowUsed ? sinceNs - times.fenceWindowNs() : sinceNs;
    }

    /** A new link to the source is up: both sides have just proved on it that they are alive. */
    public void linkUp(long now) {
        woke(now);
        nowNs = now;
        heardNs = now;
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

    /** Returns true if words of the source may be older than a fence that may have shot it. */
    private boolean isStale() {
        return promiseOver || fenceOver;
    }

    private void dropLink() {
        carryOut(new Effect.DropSourceLink());
        linkDown(nowNs);
    }

    /** The link to the source is lost. */
    public void linkDown(long now) {
        woke(now);
        nowNs = now;
        if (linked) {
            linked = false;
            lostNs = now;
            on(new ParticipantEvent.SourceLost(lostForTheJournalNs(now)), now);
        }
    }

    /** The fence command has ended. {@code off}: it proves the source off. */
    public void fenceEnded(boolean off, long now) {
        nowNs = now;
        fenceEndNs = NEVER;
        if (off) {
            fenceOver = false;
            on(new ParticipantEvent.FenceEnded(true), now);
            return;
        }
        // It may have shot all the same: the source is believed again on a new link only.
        fenceOver = true;
        dropLink();
        String text = held();
        send("the fence command does not prove the source off" + (text == null ? "" : "; " + text));
    }

    /** Returns whether {@link #resolve} would follow an operator's decision, and what it would mean. */
    public OperatorDecision.DecisionPreview ruling(OperatorDecision word) {
        return OperatorRules.ofParticipant(state, word, source, times.fenceWindowNs() != 0);
    }

    /**
     * An operator decides. To be called only where {@link #ruling} allows it. Where it wants the fence's proof, a fence
     * window is opened for it: the others are asked for their promise, then the command is run, and what follows from
     * its success is a commit.
     */
    public void resolve(OperatorDecision word, long now) {
        if (ruling(word).how() == OperatorDecision.DecisionPreview.How.AFTER_FENCE) {
            seekProof(now);
            return;
        }
        on(new ParticipantEvent.ParticipantDecision(word.outcome(), word.firstOff()), now);
        word.targetsOff().forEach(name -> on(new ParticipantEvent.PeerOff(name), now));
    }

    private void seekProof(long now) {
        nowNs = now;
        if (state.fencing() && !fenceOver) {
            // It may be running already.
            return;
        }
        windowUsed = true;
        if (state.fencing()) {
            // The last one has proved nothing. The source is believed on a new link only, as before.
            on(new ParticipantEvent.FenceEnded(false), now);
        }
        long endNs = now + times.fenceWindowNs();
        on(new ParticipantEvent.SourceFenceDue(endNs, promiseNs(endNs)), now);
    }

    /** Returns true if a fence window is open: the others' promises are awaited, or the command runs. */
    public boolean seeksProof() {
        return state.phase() == Phase.PREPARED && (state.fencing() ? !fenceOver : state.round() != 0);
    }

    @Override
    void before(Effect effect) {
        if (effect instanceof Effect.StartRestore start) {
            long fenceWindowMs = TimeUnit.NANOSECONDS.toMillis(times.fenceWindowNs());
            long silenceLimitMs = TimeUnit.NANOSECONDS.toMillis(times.silenceLimitNs());
            // Said first: however many restarts there are to start, the source waits for none of them.
            carryOut(
                    new Effect.Reply(start.attempt(), new ControlMessage.Accept(nowNs, fenceWindowMs, silenceLimitMs)));
        } else if (effect instanceof Effect.FenceSource) {
            fenceEndNs = state.round();
            fenceOver = false;
        }
    }

    @Override
    void done(Effect effect) {
        if (effect instanceof Effect.Persist persist
                && persist.record() instanceof TransactionRecord.Promised promised) {
            promiseEndNs = promiseEndNs == NEVER ? promised.untilNs() : Math.max(promiseEndNs, promised.untilNs());
        }
    }

    /** Returns the node that the fence command of {@link Effect.FenceSource} is for. */
    public String source() {
        return source;
    }

    /** Returns the time after which that command is no longer started, to be looked at right before its start. */
    public long fenceEndNs() {
        return fenceEndNs;
    }

    /**
     * The command of {@link Effect.FenceSource} was not started. Called while the executor carries that out.
     *
     * @param whyNotHeld names a copy that is not held; empty if there is no command
     */
    public void notFenced(String whyNotHeld) {
        if (!whyNotHeld.isEmpty()) {
            send("the source is not fenced, since the copies here are no longer held: " + whyNotHeld);
        }
        fenceEndNs = NEVER;
        found(new Effect.FenceSource(), () -> ParticipantRules.apply(state, new ParticipantEvent.FenceEnded(false)));
    }

    @Override
    boolean resend() {
        ParticipantRules.unanswered(state).forEach(this::carryOut);
        if (state.phase() == Phase.PREPARED && state.round() != 0 && !state.fencing()) {
            // A peer that answered already is asked again: its promise must not be older than the window.
            state.silent()
                    .forEach(name ->
                            carryOut(ParticipantRules.ask(state, name, state.round(), promiseNs(state.round()))));
        }
        return state.phase() == Phase.PREPARED || state.phase() == Phase.TAKEN_OVER || !state.done();
    }

    /** A service that was frozen does not know since when the source is lost: no fence until a new link. */
    @Override
    void woke(long now) {
        if (wasFrozen(now) && !state.done()) {
            windowUsed = true;
        }
    }

    @Override
    void timers() {
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
            // The command has had its time, and this service may have been restarted since it was started.
            fenceEnded(false, nowNs);
        }
    }

    /** Returns the time from which this participant may fence the source: within its window only, once in each. */
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

    /** The rest of the window and a quarter more, for clocks that do not run alike. */
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
    String held() {
        return Explanations.heldAtParticipant(state, source, times.fenceWindowNs() != 0);
    }
}
