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
 * Hands the effects of the rules to their executor, one after the other. An effect that is not carried out yet (a
 * process that does not end, a full disk, a look at processes that is under way) stays at the head and is handed over
 * again; events that come meanwhile wait behind it. So is one whose executor throws, by a defect of the service: what
 * is decided must be done.
 *
 * @param <S> the state
 */
abstract class TransactionDriver<S> {
    /** An effect that is under way for longer is named to people: what it needs may hang. */
    private static final long LONGEST_WORK_NS = TimeUnit.MINUTES.toNanos(2);

    private static final Logger LOG = LoggerFactory.getLogger(TransactionDriver.class);
    /** Messages beyond this are dropped while an effect hangs: they are said again. */
    private static final int MOST_WAITING = 512;

    /** A peer that has not answered for some time is asked again after a sixth of it, at most after ten intervals. */
    private static final int QUIET_SHARE = 6;

    private static final int MOST_RESEND_INTERVALS = 10;

    /** Never, as a time. */
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
    private long sayNs = NEVER;
    private long sayFullNs;
    private long sayDefectNs;
    /** The time of the last event. */
    private long quietSinceNs;

    private long heldSinceNs = NEVER;
    private boolean running;
    /** The effect at the head is being carried out on another thread. */
    private boolean underWay;
    /** The event of which no effect has been carried out yet, and the state before it. */
    private Supplier<Transition<S>> untouched;

    private S before;
    /** Since when the effect at the head waits to be done; NEVER where none does. */
    private long headSinceNs = NEVER;

    private boolean hasHeadFailed;

    TransactionDriver(String migrationId, TransactionTimes times, EffectExecutor executor, S state) {
        this.migrationId = migrationId;
        this.times = times;
        this.executor = executor;
        this.state = state;
    }

    /** Notes what the role has to know of an effect before the executor has it; not again while it is under way. */
    abstract void before(Effect effect);

    /** Notes that an effect was carried out. */
    abstract void done(Effect effect);

    /** Says again what waits for an answer; whether anything does. */
    abstract boolean resend();

    /** Describes the ranks that are held here and why, or null if none are. */
    abstract String held();

    /** Tells people. */
    final void send(String text) {
        carryOut(new Effect.Say(text));
    }

    /** Takes an event; it is made when its turn has come, so that what it proves is fresh. */
    final void take(Supplier<Transition<S>> event, boolean droppable) {
        if (droppable && waiting.size() >= MOST_WAITING) {
            return;
        }
        quietSinceNs = nowNs;
        if (resendNs != NEVER) {
            resendNs = Math.min(resendNs, nowNs + times.resendNs());
        }
        waiting.add(event);
        run();
    }

    /**
     * Takes what an effect has brought to light, before all that waits. Where the event has to be looked at again, the
     * effect is carried out once more, since what it had found may no longer hold by then.
     */
    final void found(Effect effect, Supplier<Transition<S>> event) {
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

    /** Takes an event that is to have this effect first. */
    final void takeWith(Effect effect) {
        take(() -> new Transition<>(state, List.of(effect)), false);
    }

    /** Carries out what can be carried out now: what was under way on another thread may have ended. */
    public final void wake(long now) {
        woke(now);
        nowNs = now;
        run();
    }

    /** Carries out what can be carried out. */
    final void run() {
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
            plan();
        }
    }

    /** Hands an effect over. Where the executor throws, only what is said again anyway counts as done. */
    final Execution carryOut(Effect effect) {
        try {
            // What it has brought to light may have been taken already, by the time that its end is asked for.
            if (!(underWay && effect == pending.peek())) {
                before(effect);
            }
            Execution execution = executor.carryOut(effect);
            if (execution == Execution.DONE) {
                done(effect);
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
        if (nowNs >= sayDefectNs) {
            sayDefectNs = nowNs + times.sayNs();
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
                    takeBack();
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
     * A step whose first record cannot be written is not taken: the event is looked at again later, since what it has
     * proved may no longer hold by then.
     */
    private void takeBack() {
        if (untouched != null && pending.peek() instanceof Effect.Persist) {
            pending.clear();
            state = before;
            waiting.addFirst(untouched);
            untouched = null;
        }
    }

    private void logNotWritten(Effect effect, IOException e) {
        if (nowNs >= sayFullNs) {
            sayFullNs = nowNs + times.sayNs();
            String what = effect instanceof Effect.Persist persist
                    ? persist.record().getClass().getSimpleName()
                    : effect.getClass().getSimpleName();
            send("the journal cannot be written, so " + what + " waits; make room or mend the disk: " + e.getMessage());
        }
        LOG.debug("journal", e);
    }

    private void plan() {
        if (resendNs == NEVER) {
            resendNs = nowNs + times.resendNs();
        }
        String held = held();
        if (held == null) {
            sayNs = NEVER;
            heldSinceNs = NEVER;
        } else if (sayNs == NEVER) {
            sayNs = nowNs;
            heldSinceNs = nowNs;
        }
    }

    /** Time passes: what is due is done. */
    public final void tick(long now) {
        woke(now);
        nowNs = now;
        if (now >= retryNs) {
            run();
        }
        if (pending.isEmpty()) {
            timers();
            if (now >= resendNs) {
                resendNs = resend() ? now + resendIntervalNs() : NEVER;
            }
        }
        if (now >= sayNs) {
            String waits = waitsFor();
            if (waits != null) {
                send(waits);
            }
            sayNs = waits == null && pending.isEmpty() ? NEVER : now + times.sayNs();
        }
    }

    /** A service that waits for a node that is gone for good must not keep its own node busy. */
    private long resendIntervalNs() {
        long quietNs = nowNs - quietSinceNs;
        return Math.min(Math.max(times.resendNs(), quietNs / QUIET_SHARE), MOST_RESEND_INTERVALS * times.resendNs());
    }

    /** Called before anything else at each call, with the time of the last one still in {@link #nowNs}. */
    abstract void woke(long now);

    /** Lets the role's own timers run. */
    abstract void timers();

    /** Returns the time at which one of those is due next. */
    abstract long ownDeadlineNs();

    /**
     * Returns the time of the next call of {@link #tick}, on the clock of its caller: when it has something to do, and
     * so often that a gap between two calls shows that the service was frozen.
     */
    public final long nextDeadlineNs() {
        // While an effect waits nothing is said again and no timer of the role runs, so that neither is due.
        long nextNs = pending.isEmpty()
                ? Math.min(Math.min(retryNs, resendNs), Math.min(sayNs, ownDeadlineNs()))
                : Math.min(retryNs, sayNs);
        return resendNs == NEVER ? nextNs : Math.min(nextNs, nowNs + times.silenceLimitNs());
    }

    /** Returns true if this was not called for a time after which the peers may consider this service lost. */
    final boolean wasFrozen(long now) {
        return nowNs != 0 && now - nowNs > times.silenceLimitNs() + 2 * times.resendNs();
    }

    /** Describes the unreachable peer and the remedy while ranks are held for it; or null. */
    public final String waitsFor() {
        if (!pending.isEmpty() && !isBusy()) {
            return "it waits to carry out " + pending.peek();
        }
        return isUnwritten() ? null : held();
    }

    /** Returns true while an effect is under way that has not failed, and has not taken longer than people wait. */
    public final boolean isBusy() {
        return underWay && !hasHeadFailed && nowNs - headSinceNs < LONGEST_WORK_NS;
    }

    /** Returns true while the record of the state is being written: people may not act on that state yet. */
    private boolean isUnwritten() {
        return underWay && untouched != null && pending.peek() instanceof Effect.Persist;
    }

    /** Returns its state as it is in the journal, for people: while a record is being written, the state before. */
    public final S writtenState() {
        return isUnwritten() ? before : state;
    }

    /** Since when it waits, on the clock of its caller; the last event's time where it does not. */
    public final long waitsSinceNs() {
        return heldSinceNs == NEVER ? nowNs : Math.min(heldSinceNs, startOfHoldNs());
    }

    long startOfHoldNs() {
        return heldSinceNs;
    }

    /** Returns its state. */
    public final S state() {
        return state;
    }

    /** Returns true if everything that was decided has been carried out. */
    public final boolean isSettled() {
        return pending.isEmpty() && waiting.isEmpty();
    }
}
