package io.ppmr.transaction;

import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.protocol.control.VoterState;
import io.ppmr.transaction.SimWorld.Copy;
import io.ppmr.transaction.journal.TransactionJournal;
import io.ppmr.transaction.journal.TransactionRecord;
import io.ppmr.transaction.rules.Begins;
import io.ppmr.transaction.rules.Effect;
import io.ppmr.transaction.rules.ParticipantEvent;
import io.ppmr.transaction.rules.ParticipantState;
import java.io.IOException;
import java.util.List;

/** A target of the simulation. */
final class SimTarget extends SimNode<Participant> implements EffectExecutor {
    final int index;
    private final SimCluster cluster;
    int restoring;
    int wholeOf;

    SimTarget(SimCluster cluster, int index) {
        super(cluster.world, SimWorld.name(index), cluster.times);
        this.cluster = cluster;
        this.index = index;
        driver = begin(List.of());
    }

    @Override
    Participant begin(List<TransactionRecord> records) {
        if (TransactionJournal.openIn(records).isEmpty() && world.copies[index] != Copy.RUNNING) {
            world.copies[index] = Copy.NONE;
            restoring = 0;
        }
        Participant participant = new Participant(ID, times, this);
        driver = participant;
        if (!records.isEmpty()) {
            participant.recover(records, world.clock.nowNs, 0);
        }
        return participant;
    }

    @Override
    void started() {
        cluster.reconnectLater(this);
    }

    /** Notes that the image is whole here. The restart needs time. */
    void imageArrived(int attempt) {
        wholeOf = attempt;
        world.clock.after(world.between(0.1, 3), () -> post(participant -> restored(participant, attempt)));
    }

    private void restored(Participant participant, int attempt) {
        if (restoring != attempt || participant.state().attempt() != attempt) {
            return;
        }
        if (world.chance(cluster.restartFails)) {
            participant.on(new ParticipantEvent.LocalFailure("the restart failed"), world.clock.nowNs);
            return;
        }
        if (world.copies[index] == Copy.RESTORING) {
            world.copies[index] = Copy.HELD;
            participant.copiesHeld("s", Begins.copies("t"), world.clock.nowNs);
            // There is no vote if the target is rolling back already and its copies do not end at once.
            world.votedFor[index] = participant.state().phase() == ParticipantState.Phase.PREPARED ? attempt : 0;
        }
    }

    @Override
    public Execution carryOut(Effect effect) throws IOException {
        if (effect instanceof Effect.Persist persist) {
            journal.persist(persist.record());
        } else if (effect instanceof Effect.Reply reply) {
            reply(reply.attempt(), reply.message());
        } else if (effect instanceof Effect.Send send) {
            send(send.participant(), send.attempt(), send.message());
        } else if (effect instanceof Effect.StartRestore start) {
            startRestore(start.attempt());
        } else if (effect instanceof Effect.ProveCopies) {
            driver.copiesProved(copiesHeld());
        } else if (effect instanceof Effect.ProveForPromise promise) {
            driver.promiseProved(promise, copiesHeld());
        } else if (effect instanceof Effect.ReleaseCopies) {
            world.release(index);
        } else if (effect instanceof Effect.EndCopies) {
            return endCopies();
        } else if (effect instanceof Effect.FenceSource) {
            fenceSource(driver.fenceEndNs());
        } else if (effect instanceof Effect.DropSourceLink) {
            cluster.drop(this);
        } else if (effect instanceof Effect.Report text) {
            world.note(name + " reports: " + text.text());
        } else if (effect instanceof Effect.Finished finished) {
            world.note(name + " has finished: " + finished.outcome() + " " + finished.reason());
        } else if (!(effect instanceof Effect.Reconnect)) {
            // The hook has no work here.
            throw new IllegalStateException("not a participant's: " + effect);
        }
        return Execution.DONE;
    }

    private void reply(int attempt, ControlMessage message) {
        if (message instanceof ControlMessage.StillHeld) {
            world.saidHeld[index] = true;
        }
        cluster.toSource(this, attempt, message);
    }

    private void send(String participant, int attempt, ControlMessage message) {
        if (message instanceof ControlMessage.ParticipantStatus standing && standing.state() == VoterState.PROMISED) {
            world.saidHeld[index] = true;
        }
        cluster.toPeer(this, SimWorld.index(participant), attempt, message);
    }

    private void startRestore(int attempt) {
        world.copies[index] = Copy.RESTORING;
        world.saidHeld[index] = false;
        world.votedFor[index] = 0;
        restoring = attempt;
    }

    private String copiesHeld() {
        return world.copies[index] == Copy.HELD ? "" : "a copy is " + world.copies[index];
    }

    private Execution endCopies() {
        if (world.chance(0.2)) {
            return Execution.FAILED;
        }
        world.copies[index] = Copy.NONE;
        restoring = 0;
        world.check();
        return Execution.DONE;
    }

    private void fenceSource(long untilNs) {
        String gone = copiesHeld();
        if (!gone.isEmpty() || !cluster.hasFence || world.clock.nowNs >= untilNs) {
            driver.notFenced(gone);
            return;
        }
        world.note(name + " fences the source");
        world.saidHeld[index] = true;
        long endNs = Math.min(untilNs, world.clock.nowNs + world.between(0.5, 12));
        boolean works = world.chance(cluster.fenceWorks);
        int mine = generation;
        world.clock.at(endNs, () -> {
            if (works) {
                cluster.sourceOff(true);
            }
            if (generation == mine) {
                post(participant -> participant.fenceEnded(works, world.clock.nowNs));
            }
        });
    }

    @Override
    boolean isOver() {
        return off || (driver != null && driver.state().done());
    }

    @Override
    String held() {
        return driver == null ? null : driver.describeHeld();
    }
}
