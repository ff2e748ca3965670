package io.ppmr.transaction;

import io.ppmr.transaction.journal.TransactionRecord;
import io.ppmr.transaction.rules.TransactionTimes;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/**
 * A node of the simulation with its one service (up, crashed or frozen) and its journal.
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
    int generation;

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

    /** Runs the action on the service, now or after its freeze. A later generation of the service does not run it. */
    void post(Consumer<D> action) {
        int mine = generation;
        if (!isUp()) {
            return;
        }
        if (isFrozen()) {
            frozen.add(driverThen -> {
                if (generation == mine) {
                    action.accept(driverThen);
                }
            });
            return;
        }
        action.accept(driver);
        scheduleTick();
    }

    /** Ticks at the driver's next deadline. */
    private void scheduleTick() {
        if (!isUp()) {
            return;
        }
        long nextNs = driver.nextDeadlineNs();
        if (nextNs == Long.MAX_VALUE || (tickNs > world.clock.nowNs && tickNs <= nextNs)) {
            return;
        }
        tickNs = Math.max(nextNs, world.clock.nowNs + TimeUnit.MILLISECONDS.toNanos(1));
        int mine = generation;
        long dueNs = tickNs;
        world.clock.at(dueNs, () -> {
            if (generation == mine && tickNs == dueNs) {
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
        scheduleTick();
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
        generation++;
        frozen.clear();
        tickNs = Long.MAX_VALUE;
    }

    private void restart() {
        if (driver == null && !off) {
            world.note(name + " starts again");
            List<TransactionRecord> records = journal.records(ID);
            driver = begin(records);
            scheduleTick();
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
