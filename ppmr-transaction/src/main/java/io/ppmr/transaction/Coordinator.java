package io.ppmr.transaction;

import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.transaction.journal.Outcome;
import io.ppmr.transaction.journal.PlannedRank;
import io.ppmr.transaction.journal.TransactionJournal;
import io.ppmr.transaction.journal.TransactionRecord;
import io.ppmr.transaction.operator.Explanations;
import io.ppmr.transaction.operator.OperatorDecision;
import io.ppmr.transaction.operator.OperatorRules;
import io.ppmr.transaction.rules.CoordinatorEvent;
import io.ppmr.transaction.rules.CoordinatorEvent.Originals;
import io.ppmr.transaction.rules.CoordinatorRules;
import io.ppmr.transaction.rules.CoordinatorState;
import io.ppmr.transaction.rules.CoordinatorState.Member;
import io.ppmr.transaction.rules.CoordinatorState.Phase;
import io.ppmr.transaction.rules.Effect;
import io.ppmr.transaction.rules.TransactionTimes;
import io.ppmr.transaction.rules.Transition;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Runs {@link CoordinatorRules} for one migration: holds the state, carries effects out through {@link
 * Ports}, says unanswered messages again, keeps the pause budget, and has a participant fenced that was not
 * reached for long enough. docs/transaction.md.
 *
 * <p>Owned by the migration's thread, which calls {@link #tick} at {@link #nextDeadlineNs}. Times are those of a
 * clock that goes on while the machine is suspended, as the participants' windows do.
 */
public final class Coordinator extends TransactionDriver<CoordinatorState> {
    /**
     * The source's service, as a {@link Coordinator} needs it. Called on the migration's thread, in the rules' order. A
     * method that gives false, or throws by a defect, is called again until it gives true; what comes after it waits.
     */
    public interface Ports {
        /**
         * Says it, about that attempt, if the participant can be reached now; else drops it, it will be said again.
         * Never blocks for long.
         */
        void send(String participant, int attempt, ControlMessage message);

        /** Proves all originals, thread by thread: held, and that none has run since it was found held. */
        Originals originals();

        /** Names for people an original that is not held; asked after {@link #originals} has said so. */
        String whyNotHeld();

        /** Returns the participants of another attempt after this failure, or empty if there is to be none. */
        List<String> nextAttempt(String reason, String participant);

        /**
         * Says Begin to each and starts the checkpoints; the originals are held already if it is not the first
         * attempt.
         */
        void startAttempt(int attempt, List<String> participants);

        /**
         * Ends checkpoints and streams of an attempt that failed; whether the checkpoints have ended. Originals stay
         * held if they are.
         */
        boolean stopAttempt(int attempt, String reason);

        /** Lets the message go out that completes the participant's image. */
        void seal(String participant);

        /** Ends every original; whether it is proved that none is left. Those that are gone already are no error. */
        boolean endOriginals();

        /** Every original that is alive goes on; whether all do. */
        boolean continueOriginals();

        /** Runs the resume hook. Its failure is logged and reported, nothing else. */
        void resume();

        /** Runs the reconnect hook. Its failure is logged and reported, nothing else. */
        void reconnect();

        /**
         * Starts the fence command for a participant's node, and has {@link Coordinator#fenceEnded} called on the
         * migration's thread. Without a command: false, nothing is started.
         */
        boolean fence(String participant);

        /** Says it loudly. */
        void say(String text);

        /** Over: the journal knows it. */
        void finished(Outcome outcome, String reason);
    }

    private final Ports ports;
    /** Since when a participant has not been reached; absent while it is. */
    private final Map<String, Long> downSinceNs = new HashMap<>();

    private final Map<String, Long> nextFenceNs = new HashMap<>();
    private final Set<String> fencing = new HashSet<>();
    private long pauseEndNs = NEVER;
    /** The time at which it was last found to have been frozen. */
    private long thawedNs = Long.MIN_VALUE;

    private boolean calledOff;

    public Coordinator(String migrationId, TransactionTimes times, TransactionJournal journal, Ports ports) {
        super(migrationId, times, journal, CoordinatorState.fresh(migrationId));
        this.ports = ports;
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
        take(() -> CoordinatorRules.recover(migrationId, records, ask(ports::originals)), false);
    }

    /** An event; messages by {@link #heard}, failures by {@link #fail}. */
    public void on(CoordinatorEvent event, long now) {
        at(now);
        take(() -> CoordinatorRules.apply(state, event), event instanceof CoordinatorEvent.Heard);
    }

    /** A message came on the link that is up. One of a participant that is just being fenced is not heard. */
    public void heard(String participant, int attempt, ControlMessage message, long now) {
        if (fencing.contains(participant)) {
            // It may be off in a moment, so it is not to be let go now and to take part in another attempt.
            return;
        }
        on(new CoordinatorEvent.Heard(participant, attempt, message), now);
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
        take(() -> attempt == state.attempt() ? judge(reason, participant, false) : Transition.stay(state), false);
    }

    /** Calls the migration off, if it is not decided. */
    public void callOff(String reason, long now) {
        calledOff = true;
        at(now);
        take(() -> judge(reason, "", false), false);
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
            say("the fence command does not prove " + participant + " off; " + held());
        }
    }

    /**
     * Tells whether nothing is missing but answers of participants that are reached: it takes its time, and nothing is
     * in doubt.
     */
    public boolean isSettledByReached() {
        List<String> awaited = Explanations.awaited(state);
        return isSettled() && !awaited.isEmpty() && awaited.stream().noneMatch(downSinceNs::containsKey);
    }

    /** Tells whether {@link #resolve} would follow an operator's decision, and what it would mean. */
    public OperatorDecision.Verdict ruling(OperatorDecision word, boolean hasFence) {
        return OperatorRules.ofCoordinator(state, word, downSinceNs.keySet(), hasFence);
    }

    /** An operator decides. To be called only where {@link #ruling} allows it. */
    public void resolve(OperatorDecision word, long now) {
        if (word.outcome() == Outcome.ROLLED_BACK) {
            callOff("an operator has decided so", now);
        }
        on(new CoordinatorEvent.Resolve(word.outcome()), now);
        word.targetsOff().forEach(name -> on(new CoordinatorEvent.Off(name), now));
    }

    @Override
    boolean perform(Effect effect) {
        if (effect instanceof Effect.Send send) {
            ports.send(send.participant(), send.attempt(), send.message());
        } else if (effect instanceof Effect.StartAttempt start) {
            ports.startAttempt(start.attempt(), start.participants());
        } else if (effect instanceof Effect.StopAttempt stop) {
            return ports.stopAttempt(stop.attempt(), stop.reason());
        } else if (effect instanceof Effect.Seal seal) {
            ports.seal(seal.participant());
        } else if (effect instanceof Effect.Judge judge) {
            takeFirst(() -> judge(judge.reason(), judge.participant(), judge.copiesGone()));
        } else if (effect instanceof Effect.ProveOriginals) {
            takeFirst(this::prove);
        } else if (effect instanceof Effect.EndOriginals) {
            return ports.endOriginals();
        } else if (effect instanceof Effect.ContinueOriginals) {
            return ports.continueOriginals();
        } else if (effect instanceof Effect.Resume) {
            ports.resume();
        } else if (effect instanceof Effect.Reconnect) {
            ports.reconnect();
        } else if (effect instanceof Effect.FenceParticipant fence) {
            startFence(fence.participant());
        } else if (effect instanceof Effect.Say text) {
            say(text.text());
        } else if (effect instanceof Effect.Finished finished) {
            pauseEndNs = NEVER;
            ports.finished(finished.outcome(), finished.reason());
        } else {
            throw new IllegalStateException("not a coordinator's: " + effect);
        }
        return true;
    }

    private Transition<CoordinatorState> prove() {
        Originals proved = ask(ports::originals);
        String reason = proved == Originals.HELD ? "" : ask(ports::whyNotHeld);
        return CoordinatorRules.apply(state, new CoordinatorEvent.Proved(proved, reason));
    }

    private Transition<CoordinatorState> judge(String reason, String participant, boolean copiesGone) {
        // Asked once for each attempt: a failure that follows from the first would use up the next spare.
        boolean open = state.phase() == Phase.PREPARING || state.phase() == Phase.CONFIRMING;
        boolean again = open && !calledOff && nowNs < pauseEndNs && !participant.isEmpty();
        // Asked first: where this throws and is asked again, no spare is used up by that.
        Originals proved = ask(ports::originals);
        List<String> next = again ? ask(() -> ports.nextAttempt(reason, participant)) : List.of();
        return CoordinatorRules.apply(state, new CoordinatorEvent.Failed(reason, copiesGone, proved, next));
    }

    private void startFence(String participant) {
        if (ports.fence(participant)) {
            fencing.add(participant);
            nextFenceNs.put(participant, NEVER);
        } else {
            nextFenceNs.put(participant, NEVER);
            say("there is no fence command to prove " + participant + " off; " + held());
        }
    }

    @Override
    boolean sayAgain() {
        CoordinatorRules.unanswered(state).forEach(this::carryOut);
        return !state.isOver();
    }

    /**
     * A target that lost this node while it was frozen may be about to fence it, and the lost link is not known here
     * yet.
     */
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
        boolean wanted = state.phase() == Phase.ROLLING_BACK
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

    /** From when on a member that is not reached cannot be fencing this node any more. */
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
    void written(TransactionRecord record) {
        if (record instanceof TransactionRecord.CommitDecided || record instanceof TransactionRecord.Broken) {
            pauseEndNs = NEVER;
        }
    }

    @Override
    void say(String text) {
        ports.say(text);
    }

    @Override
    String held() {
        return Explanations.heldAtCoordinator(state, downSinceNs.keySet());
    }
}
