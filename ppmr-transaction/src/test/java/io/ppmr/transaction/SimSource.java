package io.ppmr.transaction;

import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.transaction.journal.Outcome;
import io.ppmr.transaction.journal.TransactionRecord;
import io.ppmr.transaction.rules.Begins;
import io.ppmr.transaction.rules.CoordinatorEvent;
import io.ppmr.transaction.rules.CoordinatorEvent.Originals;
import io.ppmr.transaction.rules.CoordinatorState;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;

/** The source of the simulation. */
final class SimSource extends SimNode<Coordinator> implements Coordinator.Ports {
    private final SimCluster cluster;
    private int attempts;

    SimSource(SimCluster cluster) {
        super(cluster.world, "s", cluster.times);
        this.cluster = cluster;
        driver = new Coordinator(ID, times, journal, this);
    }

    void start() {
        List<String> first = new ArrayList<>();
        for (int target = 0; target < world.ranks; target++) {
            first.add(SimWorld.name(target));
        }
        post(coordinator -> coordinator.start(first, List.of(), world.clock.nowNs));
    }

    @Override
    Coordinator begin(List<TransactionRecord> records) {
        Coordinator coordinator = new Coordinator(ID, times, journal, this);
        driver = coordinator;
        if (records.isEmpty()) {
            // It died before anything was said; whoever asked asks again, which is no matter of this run.
            Arrays.fill(world.held, false);
            Arrays.fill(world.moved, false);
        } else {
            coordinator.recover(records, world.clock.nowNs);
        }
        return coordinator;
    }

    @Override
    void started() {
        cluster.targets.forEach(cluster::reconnectLater);
    }

    @Override
    public void send(String participant, int attempt, ControlMessage message) {
        if (message instanceof ControlMessage.RollBack) {
            world.rollBackDecided = true;
        } else if (message instanceof ControlMessage.Commit) {
            world.rollBackDecided = false;
        }
        cluster.toTarget(SimWorld.index(participant), attempt, message);
    }

    @Override
    public Originals originals() {
        return world.originals();
    }

    @Override
    public List<String> nextAttempt(String reason, String participant) {
        if (attempts >= 3) {
            return List.of();
        }
        List<String> all = new ArrayList<>();
        cluster.targets.forEach(target -> all.add(target.name));
        Collections.shuffle(all, world.random);
        all.remove(participant);
        all.add(participant);
        return all.subList(0, world.ranks);
    }

    @Override
    public void startAttempt(int attempt, List<String> participants) {
        for (String participant : participants) {
            cluster.toTarget(SimWorld.index(participant), attempt, Begins.of(ID, participants, participant));
        }
        attempts = attempt;
        world.note("attempt " + attempt + " with " + participants);
        world.participants = participants;
        world.attempt = attempt;
        world.rollBackDecided = false;
        Arrays.fill(world.saidHeld, false);
        driver.suspended(world.clock.nowNs);
        int mine = life;
        for (int rank = 0; rank < world.ranks; rank++) {
            int which = rank;
            String participant = participants.get(rank);
            world.clock.after(world.between(0.1, 5), () -> {
                if (life == mine && world.alive[which] && driver.state().attempt() == attempt) {
                    if (driver.state().phase() == CoordinatorState.Phase.PREPARING) {
                        world.held[which] = true;
                        world.moved[which] = false;
                    }
                    post(coordinator -> coordinator.on(
                            new CoordinatorEvent.ImageComplete(participant, List.of()), world.clock.nowNs));
                }
            });
        }
    }

    @Override
    public boolean stopAttempt(int attempt, String reason) {
        // The journal has the decision from here on, before anybody is told.
        world.rollBackDecided |= driver.state().phase() == CoordinatorState.Phase.ROLLING_BACK;
        if (world.chance(0.2)) {
            // A checkpointer that writes from within its process takes its time.
            return false;
        }
        world.note("attempt " + attempt + " stops: " + reason);
        return true;
    }

    @Override
    public void seal(String participant) {
        cluster.imageGoesOut(SimWorld.index(participant), driver.state().attempt());
    }

    @Override
    public String whyNotHeld() {
        return "an original has run";
    }

    boolean hasDecidedCommit() {
        return journal.records(ID).stream().anyMatch(record -> record instanceof TransactionRecord.CommitDecided);
    }

    @Override
    public boolean endOriginals() {
        world.requireStoodStill();
        if (world.chance(0.2)) {
            // One after the other, and the last takes its time.
            world.alive[0] = false;
            return false;
        }
        Arrays.fill(world.alive, false);
        world.note("the originals are ended");
        world.check();
        return true;
    }

    @Override
    public boolean continueOriginals() {
        world.continueOriginals();
        return true;
    }

    @Override
    public void resume() {
        // The hook has nothing to do here.
    }

    @Override
    public void reconnect() {
        // The hook has nothing to do here.
    }

    @Override
    public boolean fence(String participant) {
        if (!cluster.hasFence) {
            return false;
        }
        world.note("the source fences " + participant);
        boolean works = world.chance(cluster.fenceWorks);
        int mine = life;
        world.clock.after(world.between(0.5, 12), () -> {
            if (works) {
                cluster.targetOff(SimWorld.index(participant), true);
            }
            if (life == mine) {
                post(coordinator -> coordinator.fenceEnded(participant, works, world.clock.nowNs));
            }
        });
        return true;
    }

    @Override
    public void say(String text) {
        world.note("s says: " + text);
    }

    @Override
    public void finished(Outcome outcome, String reason) {
        world.note("s has finished: " + outcome + " " + reason);
        // The session of this migration is over.
        cluster.targets.forEach(target -> world.clock.after(world.between(1, 2), () -> cluster.drop(target)));
    }

    @Override
    boolean isOver() {
        return off
                || (driver != null && (driver.state().isOver() || driver.state().attempt() == 0));
    }

    @Override
    String held() {
        return driver == null ? null : driver.held();
    }
}
