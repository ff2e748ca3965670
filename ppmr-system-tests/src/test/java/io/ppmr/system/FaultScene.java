package io.ppmr.system;

import static io.ppmr.system.FaultRig.FIRST;
import static io.ppmr.system.FaultRig.SECOND;
import static io.ppmr.system.FaultRig.SOURCE;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.system.FaultMatrix.Case;
import io.ppmr.system.FaultMatrix.End;
import io.ppmr.system.FaultMatrix.Moment;
import io.ppmr.system.FaultRig.Shape;
import io.ppmr.testbed.Conditions;
import io.ppmr.transaction.journal.TransactionRecord;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;

/** One case of the table of faults. It brings the job to the moment, executes the row's fault, and checks the end. */
final class FaultScene {
    private static final Set<Moment> VOTED = EnumSet.range(Moment.PREPARED, Moment.COMMITTED);

    private final Case now;
    private final FaultRig rig;
    private final LedgerJob job;
    private String migration;

    /** @param rig of the shape that {@link #shapeFor} gives */
    FaultScene(Case now, FaultRig rig, LedgerJob job) {
        this.now = now;
        this.rig = rig;
        this.job = job;
    }

    /** The nodes that a row needs. */
    static Shape shapeFor(String fault) {
        boolean proof = !fault.contains("no proof");
        String fencedBy = proof && fault.startsWith("target node")
                ? SOURCE
                : fault.contains("fence")
                                || fault.startsWith("network to")
                                || (proof && fault.startsWith("source node"))
                        ? FIRST
                        : "";
        boolean two = fault.contains("two targets") || fault.contains("spare") || fault.contains("second");
        return new Shape(two ? 2 : 1, fencedBy, fault.equals("cable"));
    }

    /** Executes the case. Throws if anything is not as promised. */
    void bringAbout() throws Exception {
        switch (now.fault()) {
            case "source service" -> serviceKilled(false, SOURCE);
            case "source service, message heard" -> serviceKilled(true, SOURCE);
            case "target service" -> serviceKilled(false, FIRST);
            case "target service, message heard" -> serviceKilled(true, FIRST);
            case "both services" -> serviceKilled(false, SOURCE, FIRST);
            case "checkpointer, nothing written" -> checkpointerKilled("die", "write 1m");
            case "checkpointer" -> checkpointerKilled("write 1m", "die");
            case "checkpointer, all written" -> checkpointerKilled("write 1m", "write 1m", "fsync", "die");
            case "restart command" -> restartKilled();
            case "restart command, copy made" -> restartKilledBehindItsCopy();
            case "restart command, with a spare node" -> restartKilledWithASpareNode();
            case "checkpointer in the second attempt" -> checkpointerKilledInTheSecondAttempt();
            case "network" -> networkCut();
            case "network, shorter than the silence limit" -> networkSlow();
            case "network, fence fails" -> fenceFails();
            case "network, fence works" -> fenceWorks();
            case "network to the first, two targets" -> firstCutOff();
            case "cable" -> cablePulled();
            case "source node", "source node, two targets" -> sourceNodeLost(true);
            case "source node, no proof", "source node, no proof, two targets" -> sourceNodeLost(false);
            case "target node", "target node, two targets" -> targetNodeLost(true);
            case "target node, no proof" -> targetNodeLost(false);
            default -> throw new AssertionError("nothing brings about " + now);
        }
    }

    /** Has the job moved, as far as the case's moment. */
    private void comesToTheMoment() throws Exception {
        boolean spread = rig.shape().targets() == 2;
        switch (now.moment()) {
            case WRITE -> {
                // What follows "go" is more than fits what was granted before: without the network it is never written.
                job.checkpoints(1, "write 1m", "touch " + job.mark("half"), "await " + job.mark("go"), "write 64m");
                migration = rig.migrate(spread);
                job.awaitMark("half");
                awaitFirstRankRestored();
            }
            case RESTART -> {
                job.restarts(1, "read 1m", "eof", "touch " + job.mark("read"), "await " + job.mark("go"));
                migration = rig.migrate(spread);
                job.awaitMark("read");
                awaitFirstRankRestored();
                if (spread) {
                    rig.awaitRecord(FIRST, migration, TransactionRecord.PreparedHere.class);
                }
            }
            default -> {
                if (spread) {
                    // The second's message is the last one of its kind.
                    job.restarts(1, "read 1m", "await " + job.mark("first"));
                }
                rig.relay(rig.last()).holdAt(now.moment().message().orElseThrow());
                migration = rig.migrate(spread);
                if (spread) {
                    rig.awaitRecord(FIRST, migration, TransactionRecord.PreparedHere.class);
                    job.set("first");
                }
                rig.relay(rig.last()).awaitHeld();
            }
        }
    }

    private void awaitFirstRankRestored() throws Exception {
        rig.awaitSaid(SOURCE, "migration " + migration + ": rank 0 is restored and held");
    }

    /** Continues waiting scripts, if there are any. */
    private void scriptsGoOn() throws Exception {
        if (!VOTED.contains(now.moment())) {
            job.set("go");
        }
    }

    // ---- what the end is -------------------------------------------------------------------------------------------

    private void endsAsPromised() throws Exception {
        ends(now.end());
    }

    private void ends(End end) throws Exception {
        switch (end) {
            case HERE -> {
                job.runsHere();
                isOver();
            }
            case THERE -> {
                job.runsThere();
                isOver();
            }
            case NOWHERE -> job.isGone();
            case HELD -> standsStillAndSaysSo();
        }
    }

    /** Every service that lives has closed the migration, and no command of it is left. */
    private void isOver() throws Exception {
        if (rig.node(SOURCE).isAlive()) {
            rig.awaitRecord(SOURCE, migration, TransactionRecord.Done.class);
        }
        for (String target : rig.targets()) {
            if (rig.node(target).isAlive() && rig.has(target, migration, TransactionRecord.PreparedHere.class)) {
                rig.awaitRecord(target, migration, TransactionRecord.Done.class);
            }
        }
        Conditions.until(
                "no command of the migration is left", () -> job.programs().size() == FaultRig.RANKS);
    }

    private void standsStillAndSaysSo() throws Exception {
        boolean sourceLives = rig.node(SOURCE).isAlive();
        rig.awaitSaid(
                sourceLives ? SOURCE : FIRST,
                "migration " + migration
                        + (sourceLives
                                ? ": rolled back, but the originals stay held until"
                                : ": IN DOUBT: the copies here are held"));
        job.standsStill();
        if (!sourceLives) {
            for (int rank = 0; rank < FaultRig.RANKS; rank++) {
                assertEquals(1, job.livingCopies(rank), "the copy of rank " + rank + " is held");
            }
        } else {
            assertEquals(FaultRig.RANKS, job.programs().size(), "the originals are held, and nothing else is left");
        }
    }

    // ---- services --------------------------------------------------------------------------------------------------

    private void serviceKilled(boolean messageHeard, String... names) throws Exception {
        comesToTheMoment();
        for (String name : names) {
            rig.service(name).kill();
        }
        if (messageHeard) {
            rig.relay(FIRST).passMessage();
            awaitItsEffect();
        }
        rig.relay(FIRST).lose();
        // On its way back, the living end may already execute the next step.
        if (now.moment() != Moment.COMMITTED && !messageHeard && !List.of(names).contains(FIRST)) {
            job.standsStill();
        }
        for (String name : names) {
            rig.start(name);
        }
        scriptsGoOn();
        endsAsPromised();
    }

    /** Waits until the living service has executed the message. */
    private void awaitItsEffect() throws Exception {
        switch (now.moment()) {
            case PREPARED -> rig.relay(FIRST).awaitBehind(ControlMessage.Confirm.class);
            case CONFIRM -> rig.relay(FIRST).awaitBehind(ControlMessage.StillHeld.class);
            case STILL_HELD -> rig.awaitRecord(SOURCE, migration, TransactionRecord.CommitDecided.class);
            case COMMIT -> rig.awaitRecord(FIRST, migration, TransactionRecord.CommittedHere.class);
            case COMMITTED -> rig.awaitRecord(SOURCE, migration, TransactionRecord.Done.class);
            default -> throw new AssertionError("no message is on its way at " + now);
        }
    }

    // ---- commands --------------------------------------------------------------------------------------------------

    /** The script of a command kills it, so this only waits. */
    private void movesToTheEnd() throws Exception {
        migration = rig.migrate(false);
        rig.awaitRecord(SOURCE, migration, TransactionRecord.Done.class);
        endsAsPromised();
    }

    private void checkpointerKilled(String... calls) throws Exception {
        job.checkpoints(1, calls);
        movesToTheEnd();
    }

    private void restartKilled() throws Exception {
        if (now.moment() == Moment.WRITE) {
            job.checkpoints(1, "write 1m", "await " + job.mark("dead"), "write 1m");
            job.restarts(1, "read 1m", "touch " + job.mark("dead"), "die");
        } else {
            job.restarts(1, "read 1m", "eof", "die");
        }
        movesToTheEnd();
    }

    private void restartKilledBehindItsCopy() throws Exception {
        job.restartsInVain(1);
        movesToTheEnd();
        assertEquals(0, job.livingCopies(1), "its copy is ended");
    }

    /** The first restart of rank 1 is killed, the next one, on the next node, is not. */
    private void restartKilledWithASpareNode() throws Exception {
        job.restarts(1, "read 1m", "eof", "once " + job.mark("died") + " die");
        movesToTheEnd();
        assertEquals(2, rig.count(SOURCE, migration, TransactionRecord.Begun.class), "it takes two attempts");
    }

    private void checkpointerKilledInTheSecondAttempt() throws Exception {
        job.restarts(1, "read 1m", "eof", "once " + job.mark("died") + " die");
        job.checkpoints(1, "write 1m", "again " + job.mark("checkpointed") + " die");
        movesToTheEnd();
    }

    // ---- the network -----------------------------------------------------------------------------------------------

    private void networkCut() throws Exception {
        comesToTheMoment();
        rig.relay(FIRST).cut();
        if (now.moment() == Moment.WRITE) {
            // No vote can exist: the source decides alone.
            job.set("go");
            job.runsHere();
        } else if (now.moment() == Moment.COMMITTED) {
            job.runsThere();
        } else {
            job.standsStill();
        }
        awaitBothGaveUp();
        if (now.moment() == Moment.RESTART) {
            job.set("go");
        }
        if (now.moment() != Moment.WRITE && now.moment() != Moment.COMMITTED) {
            job.standsStill();
        }
        rig.relay(FIRST).heal();
        endsAsPromised();
    }

    private void awaitBothGaveUp() throws Exception {
        String id = "migration " + migration + ": ";
        rig.awaitSaid(SOURCE, id + "127.0.0.1:" + rig.relay(FIRST).port() + ": ");
        if (now.moment() != Moment.COMMITTED) {
            Conditions.until("the target has lost the source", () -> {
                String said = rig.service(FIRST).log();
                return said.contains(id + "the source was lost") || said.contains(id + "ROLLED_BACK here");
            });
        }
    }

    private void networkSlow() throws Exception {
        comesToTheMoment();
        if (now.moment() != Moment.COMMITTED) {
            job.standsStill();
        }
        rig.relay(FIRST).pass();
        endsAsPromised();
    }

    private void cablePulled() throws Exception {
        comesToTheMoment();
        rig.node(FIRST).cable(false);
        job.set("go");
        if (now.moment() == Moment.WRITE) {
            job.runsHere();
        } else {
            // It votes, and the vote does not arrive.
            rig.awaitRecord(FIRST, migration, TransactionRecord.PreparedHere.class);
            rig.awaitRecord(SOURCE, migration, TransactionRecord.RollBackDecided.class);
            job.standsStill();
        }
        rig.node(FIRST).cable(true);
        endsAsPromised();
    }

    /**
     * The target regards the source as dead, but no fence can prove it off. When they are connected again, the source
     * decides.
     */
    private void fenceFails() throws Exception {
        comesToTheMoment();
        rig.relay(FIRST).cut();
        rig.awaitAsked(FIRST);
        job.standsStill();
        rig.proveOff(FIRST, false);
        rig.awaitSaid(FIRST, "does not prove the source off");
        awaitBothGaveUp();
        job.standsStill();
        rig.relay(FIRST).heal();
        endsAsPromised();
    }

    /** The source lives and is only cut off, until the fence command of the target ends its node. */
    private void fenceWorks() throws Exception {
        comesToTheMoment();
        rig.relay(FIRST).cut();
        rig.awaitAsked(FIRST);
        job.standsStill();
        rig.node(SOURCE).kill();
        rig.proveOff(FIRST, true);
        endsAsPromised();
    }

    /**
     * The second target is connected to the source. No peer reaches the first target, which holds its copies until one
     * does.
     */
    private void firstCutOff() throws Exception {
        comesToTheMoment();
        rig.relay(FIRST).cut();
        rig.relay(SECOND).pass();
        awaitBothGaveUp();
        job.standsStill();
        rig.relay(FIRST).heal();
        endsAsPromised();
        assertFalse(rig.hasAsked(FIRST), "a healthy source is not fenced");
    }

    // ---- nodes -----------------------------------------------------------------------------------------------------

    private void sourceNodeLost(boolean proved) throws Exception {
        comesToTheMoment();
        rig.targets().forEach(target -> rig.relay(target).silence());
        rig.node(SOURCE).kill();
        if (proved) {
            rig.proveOff(FIRST, true);
        }
        endsAsPromised();
    }

    private void targetNodeLost(boolean proved) throws Exception {
        comesToTheMoment();
        rig.relay(rig.last()).cut();
        rig.node(rig.last()).kill();
        if (now.end() == End.HERE && now.moment() != Moment.WRITE) {
            job.standsStill();
        }
        if (proved) {
            rig.proveOff(SOURCE, true);
        }
        scriptsGoOn();
        endsAsPromised();
    }
}
