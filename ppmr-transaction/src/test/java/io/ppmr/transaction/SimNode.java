package io.ppmr.transaction;

import io.ppmr.transaction.journal.TransactionRecord;
import io.ppmr.transaction.rules.TransactionTimes;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/**
 * A node of the simulation with its one service: up, crashed or frozen, and its journal.
 *
 * @param <D> the driver
 */
abstract class SimNode<D extends TransactionDriver<?>> {
    static final String ID = "m";

    final SimWorld world;
    final String name;
    final InMemoryJournal journal = new InMemoryJournal();
    final TransactionTimes times;
    D driver;
    boolean off;
    private long frozenUntilNs;
    private final Deque<Consumer<D>> frozen = new ArrayDeque<>();
    private long tickNs = Long.MAX_VALUE;
    int life;

    SimNode(SimWorld world, String name, TransactionTimes times) {
        this.world = world;
        this.name = name;
        this.times = times;
    }

    boolean isUp() {
        return driver != null && !off;
    }

    boolean isFrozen() {
        return world.clock.nowNs < frozenUntilNs;
    }

    /** Has the service do it, now or when it is no longer frozen; a later life of the service does not do it. */
    void post(Consumer<D> action) {
        int mine = life;
        if (!isUp()) {
            return;
        }
        if (isFrozen()) {
            frozen.add(driverThen -> {
                if (life == mine) {
                    action.accept(driverThen);
                }
            });
            return;
        }
        action.accept(driver);
        plan();
    }

    /** Ticks when the driver wants it. */
    private void plan() {
        if (!isUp()) {
            return;
        }
        long nextNs = driver.nextDeadlineNs();
        if (nextNs == Long.MAX_VALUE || (tickNs > world.clock.nowNs && tickNs <= nextNs)) {
            return;
        }
        tickNs = Math.max(nextNs, world.clock.nowNs + TimeUnit.MILLISECONDS.toNanos(1));
        int mine = life;
        long dueNs = tickNs;
        world.clock.at(dueNs, () -> {
            if (life == mine && tickNs == dueNs) {
                tickNs = Long.MAX_VALUE;
                post(driverThen -> driverThen.tick(world.clock.nowNs));
            }
        });
    }

    void freeze(long forNs) {
        if (isUp() && !isFrozen()) {
            world.note(name + " is frozen");
            frozenUntilNs = world.clock.nowNs + forNs;
            world.clock.at(frozenUntilNs, this::thaw);
        }
    }

    private void thaw() {
        while (!frozen.isEmpty() && isUp()) {
            frozen.poll().accept(driver);
        }
        if (isUp()) {
            driver.tick(world.clock.nowNs);
        }
        plan();
    }

    void crash() {
        if (isUp()) {
            world.note(name + " crashes");
            down();
            if (world.chance(0.5)) {
                journal.crash();
            }
            world.clock.after(world.between(0.2, 60), this::restart);
        }
    }

    void powerOff() {
        off = true;
        down();
    }

    private void down() {
        driver = null;
        life++;
        frozen.clear();
        tickNs = Long.MAX_VALUE;
    }

    private void restart() {
        if (driver == null && !off) {
            world.note(name + " starts again");
            List<TransactionRecord> records = journal.records(ID);
            driver = begin(records);
            plan();
            started();
        }
    }

    void fullDisk() {
        world.note(name + "'s disk is full");
        journal.full(true);
        world.clock.after(world.between(0.5, 30), () -> journal.full(false));
    }

    abstract D begin(List<TransactionRecord> records);

    abstract void started();

    abstract boolean isOver();

    abstract String held();
}
