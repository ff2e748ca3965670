package io.ppmr.transaction;

import io.ppmr.transaction.EffectExecutor.Execution;
import io.ppmr.transaction.rules.Effect;
import io.ppmr.transaction.rules.TransactionTimes;
import io.ppmr.transaction.rules.Transition;
import java.io.IOException;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Hands the effects of the rules to their executor, one after the other. An effect that cannot be carried out yet stays
 * at the head and is handed over again. Examples are a process that does not end, a full disk, and a scan of processes
 * that still runs. Events that arrive in the meantime wait behind the effect. An effect whose executor throws is tried
 * again, too, because decisions must be carried out.
 *
 * @param <S> the state
 */
abstract class TransactionDriver<S> {
    /** Time after which a running effect is reported, because a resource that it needs may hang. */
    private static final long LONGEST_EFFECT_NS = TimeUnit.MINUTES.toNanos(2);

    private static final Logger LOG = LoggerFactory.getLogger(TransactionDriver.class);
    /**
     * Maximum number of events that wait for an effect. Further messages are dropped, because peers send them again.
     */
    private static final int MOST_WAITING = 512;

    /** Share of a peer's silence after which a message is sent again, at most after ten intervals. */
    private static final int QUIET_SHARE = 6;

    private static final int MOST_RESEND_INTERVALS = 10;

    /** A time that never comes. */
    protected static final long NEVER = Long.MAX_VALUE;

    protected final String migrationId;
    protected final TransactionTimes times;
    private final EffectExecutor executor;
    private final Deque<Effect> pending = new ArrayDeque<>();
    private final Deque<Supplier<Transition<S>>> waiting = new ArrayDeque<>();
    protected S state;
    protected long nowNs;
    private long retryNs = NEVER;
    private long resendNs = NEVER;
    private long reportNs = NEVER;
    private long reportJournalNs;
    private long reportDefectNs;
    /** The time of the last event. */
    private long lastEventNs;

    private long heldSinceNs = NEVER;
    private boolean running;
    /** The effect at the head is being carried out on another thread. */
    private boolean underWay;
    /** The event of which no effect has been carried out yet. {@link #before} is the state before it. */
    private Supplier<Transition<S>> untouched;

    private S before;
    /** Time from which the effect at the head has been waiting, or NEVER if none waits. */
    private long headSinceNs = NEVER;

    private boolean hasHeadFailed;

    TransactionDriver(String migrationId, TransactionTimes times, EffectExecutor executor, S state) {
        this.migrationId = migrationId;
        this.times = times;
        this.executor = executor;
        this.state = state;
    }

    /** Prepares the role for an effect that goes to the executor. Not called again while the effect is under way. */
    abstract void beforeEffect(Effect effect);

    /** Notes that an effect was carried out. */
    abstract void afterEffect(Effect effect);

    /** Sends messages without an answer again. Returns true if there may be more of them later. */
    abstract boolean resend();

    /** Describes the ranks that are held here and why, or null if none are. */
    abstract String describeHeld();

    /** Reports a text to operators. */
    final void report(String text) {
        carryOut(new Effect.Report(text));
    }

    /** Accepts an event. Its rules run only when its turn comes, so that their proofs are fresh. */
    final void enqueue(Supplier<Transition<S>> event, boolean droppable) {
        if (droppable && waiting.size() >= MOST_WAITING) {
            return;
        }
        lastEventNs = nowNs;
        if (resendNs != NEVER) {
            resendNs = Math.min(resendNs, nowNs + times.resendNs());
        }
        waiting.add(event);
        carryOutPending();
    }

    /**
     * Accepts the result of an effect, before all waiting events. If the event must be repeated, the effect is carried
     * out once more, because its result may be out of date by then.
     */
    final void enqueueResult(Effect effect, Supplier<Transition<S>> event) {
        waiting.addFirst(new Supplier<>() {
            private boolean used;

            @Override
            public Transition<S> get() {
                boolean stale = used;
                used = true;
                return stale ? new Transition<>(state, List.of(effect)) : event.get();
            }
        });
    }

    /** Accepts an event whose first effect is the given one. */
    final void enqueueEffect(Effect effect) {
        enqueue(() -> new Transition<>(state, List.of(effect)), false);
    }

    /** Continues, because an effect on another thread may be over. */
    public final void wake(long now) {
        onClock(now);
        nowNs = now;
        carryOutPending();
    }

    /** Carries out all effects and events that need not wait. */
    final void carryOutPending() {
        if (running) {
            return;
        }
        running = true;
        try {
            while (performPending() && !waiting.isEmpty()) {
                untouched = waiting.poll();
                before = state;
                Transition<S> transition = untouched.get();
                state = transition.state();
                pending.addAll(transition.effects());
            }
        } finally {
            running = false;
        }
        if (pending.isEmpty()) {
            scheduleTimers();
        }
    }

    /**
     * Hands an effect over. If the executor throws, only a message counts as done, because messages are sent again
     * anyway.
     */
    final Execution carryOut(Effect effect) {
        try {
            // A repeated call only collects the result of a running effect, which was announced to the role already.
            if (!(underWay && effect == pending.peek())) {
                beforeEffect(effect);
            }
            Execution execution = executor.carryOut(effect);
            if (execution == Execution.DONE) {
                afterEffect(effect);
            }
            return execution;
        } catch (IOException e) {
            logNotWritten(effect, e);
            return Execution.FAILED;
        } catch (RuntimeException e) {
            logDefect(effect.getClass().getSimpleName(), e);
            return effect instanceof Effect.Send ? Execution.DONE : Execution.FAILED;
        }
    }

    private void logDefect(String what, RuntimeException e) {
        if (nowNs >= reportDefectNs) {
            reportDefectNs = nowNs + times.reportNs();
            LOG.error(
                    "migration {}: a defect of this service; please report it: {} waits and is tried again",
                    migrationId,
                    what,
                    e);
        }
    }

    private boolean performPending() {
        while (!pending.isEmpty()) {
            Execution execution = carryOut(pending.peek());
            underWay = execution == Execution.RUNNING;
            if (execution != Execution.DONE) {
                retryNs = nowNs + times.retryNs();
                headSinceNs = headSinceNs == NEVER ? nowNs : headSinceNs;
                if (execution == Execution.FAILED) {
                    hasHeadFailed = true;
                    revertStep();
                }
                return false;
            }
            untouched = null;
            pending.poll();
            headSinceNs = NEVER;
            hasHeadFailed = false;
        }
        untouched = null;
        retryNs = NEVER;
        return true;
    }

    /**
     * Undoes a step whose first record cannot be written. The rules handle its event again later, because its proofs
     * may be out of date by then.
     */
    private void revertStep() {
        if (untouched != null && pending.peek() instanceof Effect.Persist) {
            pending.clear();
            state = before;
            waiting.addFirst(untouched);
            untouched = null;
        }
    }

    private void logNotWritten(Effect effect, IOException e) {
        if (nowNs >= reportJournalNs) {
            reportJournalNs = nowNs + times.reportNs();
            String what = effect instanceof Effect.Persist persist
                    ? persist.record().getClass().getSimpleName()
                    : effect.getClass().getSimpleName();
            report("the journal cannot be written, so " + what + " waits; make room or mend the disk: "
                    + e.getMessage());
        }
        LOG.debug("journal", e);
    }

    private void scheduleTimers() {
        if (resendNs == NEVER) {
            resendNs = nowNs + times.resendNs();
        }
        String held = describeHeld();
        if (held == null) {
            reportNs = NEVER;
            heldSinceNs = NEVER;
        } else if (reportNs == NEVER) {
            reportNs = nowNs;
            heldSinceNs = nowNs;
        }
    }

    /** Runs the timers that are due. */
    public final void tick(long now) {
        onClock(now);
        nowNs = now;
        if (now >= retryNs) {
            carryOutPending();
        }
        if (pending.isEmpty()) {
            runTimers();
            if (now >= resendNs) {
                resendNs = resend() ? now + resendIntervalNs() : NEVER;
            }
        }
        if (now >= reportNs) {
            String waits = waitsFor();
            if (waits != null) {
                report(waits);
            }
            reportNs = waits == null && pending.isEmpty() ? NEVER : now + times.reportNs();
        }
    }

    /**
     * Returns the time until the next repetition. A service that waits for a node that is gone permanently must not
     * keep its own node busy.
     */
    private long resendIntervalNs() {
        long quietNs = nowNs - lastEventNs;
        return Math.min(Math.max(times.resendNs(), quietNs / QUIET_SHARE), MOST_RESEND_INTERVALS * times.resendNs());
    }

    /**
     * Compares the clock with the last call's. Each call starts with it, while {@link #nowNs} still has the time of the
     * last one.
     */
    abstract void onClock(long now);

    /** Runs the role's own timers that are due. */
    abstract void runTimers();

    /** Returns the time at which the role's next timer is due. */
    abstract long ownDeadlineNs();

    /**
     * Returns the time of the next call of {@link #tick}, on the caller's clock. Calls are frequent enough that a gap
     * between two of them shows a freeze of the service.
     */
    public final long nextDeadlineNs() {
        // While an effect waits, nothing is sent again and no timer of the role runs. Neither counts here.
        long nextNs = pending.isEmpty()
                ? Math.min(Math.min(retryNs, resendNs), Math.min(reportNs, ownDeadlineNs()))
                : Math.min(retryNs, reportNs);
        return resendNs == NEVER ? nextNs : Math.min(nextNs, nowNs + times.silenceLimitNs());
    }

    /** Returns true if the last call is so old that the peers may consider this service lost. */
    final boolean wasFrozen(long now) {
        return nowNs != 0 && now - nowNs > times.silenceLimitNs() + 2 * times.resendNs();
    }

    /** Describes the unreachable peer and the remedy while ranks are held for it, or returns null. */
    public final String waitsFor() {
        if (!pending.isEmpty() && !isBusy()) {
            return "waiting to carry out " + pending.peek();
        }
        return isUnwritten() ? null : describeHeld();
    }

    /** Returns true while an effect is under way that has neither failed nor exceeded its time limit. */
    public final boolean isBusy() {
        return underWay && !hasHeadFailed && nowNs - headSinceNs < LONGEST_EFFECT_NS;
    }

    /** Returns true while the record of the state is being written. Operators must not act on that state yet. */
    private boolean isUnwritten() {
        return underWay && untouched != null && pending.peek() instanceof Effect.Persist;
    }

    /**
     * Returns the state in the journal, for operators. While a record is being written, that is the state before it.
     */
    public final S writtenState() {
        return isUnwritten() ? before : state;
    }

    /**
     * Returns the time from which this migration has been waiting, on the caller's clock. Without a wait, it is the
     * time of the last call.
     */
    public final long waitsSinceNs() {
        return heldSinceNs == NEVER ? nowNs : Math.min(heldSinceNs, startOfHoldNs());
    }

    long startOfHoldNs() {
        return heldSinceNs;
    }

    /** Returns the current state. */
    public final S state() {
        return state;
    }

    /** Returns true if everything that was decided has been carried out. */
    public final boolean isSettled() {
        return pending.isEmpty() && waiting.isEmpty();
    }
}
