package io.ppmr.transaction;

import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.transaction.journal.FinalOutcome;
import io.ppmr.transaction.journal.TransactionRecord;
import io.ppmr.transaction.rules.Begins;
import io.ppmr.transaction.rules.CoordinatorEvent;
import io.ppmr.transaction.rules.CoordinatorState;
import io.ppmr.transaction.rules.Effect;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;

/** The source of the simulation. */
final class SimSource extends SimNode<Coordinator> implements EffectExecutor {
    private final SimCluster cluster;
    private int attempts;

    SimSource(SimCluster cluster) {
        super(cluster.world, "s", cluster.times);
        this.cluster = cluster;
        driver = new Coordinator(ID, times, this);
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
        Coordinator coordinator = new Coordinator(ID, times, this);
        driver = coordinator;
        if (records.isEmpty()) {
            // The service died before any message was sent. A repeated request is not part of this run.
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
    public Execution carryOut(Effect effect) throws IOException {
        if (isRunningElsewhere(effect)) {
            return Execution.RUNNING;
        }
        if (effect instanceof Effect.Persist persist) {
            journal.persist(persist.record());
        } else if (effect instanceof Effect.Send send) {
            send(send.participant(), send.attempt(), send.message());
        } else if (effect instanceof Effect.StartAttempt start) {
            startAttempt(start.attempt(), start.participants());
        } else if (effect instanceof Effect.StopAttempt stop) {
            return stopAttempt(stop.attempt(), stop.reason());
        } else if (effect instanceof Effect.Seal seal) {
            cluster.imageGoesOut(
                    SimWorld.index(seal.participant()), driver.state().attempt());
        } else if (effect instanceof Effect.EvaluateFailure judge) {
            List<String> next = driver.mayTryAgain(judge) ? nextAttempt(judge.participant()) : List.of();
            driver.failureEvaluated(judge, world.originals(), next);
        } else if (effect instanceof Effect.ProveOriginals) {
            driver.proved(world.originals(), "an original has run");
        } else if (effect instanceof Effect.Recover recover) {
            driver.originalsProvedForRecovery(recover, world.originals());
        } else if (effect instanceof Effect.EndOriginals) {
            return endOriginals();
        } else if (effect instanceof Effect.ContinueOriginals) {
            world.continueOriginals();
        } else if (effect instanceof Effect.FenceParticipant fence) {
            fence(fence.participant());
        } else if (effect instanceof Effect.Report text) {
            world.note("s reports: " + text.text());
        } else if (effect instanceof Effect.Finished finished) {
            finished(finished.outcome(), finished.reason());
        } else if (!(effect instanceof Effect.Resume || effect instanceof Effect.Reconnect)) {
            // The hooks have no work here.
            throw new IllegalStateException("not a coordinator's: " + effect);
        }
        return Execution.DONE;
    }

    /** Returns true while another thread carries out an effect. Its result is that of its end. */
    private boolean isRunningElsewhere(Effect effect) {
        if (effect instanceof Effect.Send || effect instanceof Effect.Report || !world.chance(0.2)) {
            return false;
        }
        int mine = generation;
        world.clock.after(world.between(0.001, 0.5), () -> {
            if (generation == mine) {
                post(coordinator -> coordinator.wake(world.clock.nowNs));
            }
        });
        return true;
    }

    private void send(String participant, int attempt, ControlMessage message) {
        if (message instanceof ControlMessage.RollBack) {
            world.rollBackDecided = true;
        } else if (message instanceof ControlMessage.Commit) {
            world.rollBackDecided = false;
        }
        cluster.toTarget(SimWorld.index(participant), attempt, message);
    }

    private List<String> nextAttempt(String participant) {
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

    private void startAttempt(int attempt, List<String> participants) {
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
        int mine = generation;
        for (int rank = 0; rank < world.ranks; rank++) {
            int which = rank;
            String participant = participants.get(rank);
            world.clock.after(world.between(0.1, 5), () -> {
                if (generation == mine && world.alive[which] && driver.state().attempt() == attempt) {
                    if (driver.state().phase() == CoordinatorState.CoordinatorPhase.PREPARING) {
                        world.held[which] = true;
                        world.moved[which] = false;
                    }
                    post(coordinator -> coordinator.onAttempt(
                            attempt, new CoordinatorEvent.ImageComplete(participant, List.of()), world.clock.nowNs));
                }
            });
        }
    }

    private Execution stopAttempt(int attempt, String reason) {
        // The journal has the decision from here on, before any target receives it.
        world.rollBackDecided |= driver.state().phase() == CoordinatorState.CoordinatorPhase.ROLLING_BACK;
        if (world.chance(0.2)) {
            // A checkpointer that writes from within its process needs time.
            return Execution.FAILED;
        }
        world.note("attempt " + attempt + " stops: " + reason);
        return Execution.DONE;
    }

    boolean hasDecidedCommit() {
        return journal.records(ID).stream().anyMatch(record -> record instanceof TransactionRecord.CommitDecided);
    }

    private Execution endOriginals() {
        world.requireNotRun();
        if (world.chance(0.2)) {
            // The originals end one after the other, and the last one needs time.
            world.alive[0] = false;
            return Execution.FAILED;
        }
        Arrays.fill(world.alive, false);
        world.note("the originals are ended");
        world.check();
        return Execution.DONE;
    }

    private void fence(String participant) {
        if (!cluster.hasFence) {
            driver.notFenced(participant);
            return;
        }
        world.note("the source fences " + participant);
        boolean works = world.chance(cluster.fenceWorks);
        int mine = generation;
        world.clock.after(world.between(0.5, 12), () -> {
            if (works) {
                cluster.targetOff(SimWorld.index(participant), true);
            }
            if (generation == mine) {
                post(coordinator -> coordinator.fenceEnded(participant, works, world.clock.nowNs));
            }
        });
    }

    private void finished(FinalOutcome outcome, String reason) {
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
        return driver == null ? null : driver.describeHeld();
    }
}
