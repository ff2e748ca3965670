package io.ppmr.cluster.controller;

import io.ppmr.checkpoint.Fence;
import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.cluster.record.NodeRecord;
import io.ppmr.cluster.record.NodeStatus;
import io.ppmr.cluster.zookeeper.ControllerStore;
import io.ppmr.linux.BootClock;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Optional;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Switches nodes off by the site's command: notes it in the node's record by the version that it has read, runs the
 * command, and notes its proof. Immutable, for any thread.
 *
 * @param command the command of the site
 * @param mostAnHour how many fences begin within an hour at most
 * @param workDirectory the directory of the command's output
 * @param programs the native helpers
 */
public record NodeFencing(Fence command, int mostAnHour, Path workDirectory, NativePrograms programs) {
    private static final Logger LOG = LoggerFactory.getLogger(NodeFencing.class);

    FenceRules.FenceLimits limits() {
        return new FenceRules.FenceLimits(command.delay(), command.deadline(), mostAnHour);
    }

    /**
     * Carries a fence out, and blocks until it is over. The result is passed on some thread: whether the boot of the
     * node was proved off.
     *
     * @param isWanted whether this controller is the active one, and still finds the node silent
     */
    void carryOut(NodeAct.FenceNode act, ControllerStore store, BooleanSupplier isWanted, Consumer<Boolean> ended) {
        long nowMs = System.currentTimeMillis();
        boolean isNoted = change(
                store,
                act,
                before -> before.state() == NodeStatus.SUSPECT || before.state() == NodeStatus.FENCING,
                before -> before.fencing(nowMs, nowMs + command.deadline().toMillis()));
        if (!isNoted) {
            ended.accept(false);
            return;
        }
        LOG.warn("node {} is fenced: its boot is {}", act.host(), act.bootId());
        command.start(act.host(), workDirectory, programs, () -> mayStart(act, isWanted), isProved -> {
            if (isProved) {
                // By another controller, if this one is no longer active: what is proved stays true.
                change(
                        store,
                        act,
                        before -> before.state() == NodeStatus.FENCING,
                        before -> before.off(System.currentTimeMillis()));
            }
            ended.accept(isProved);
        });
    }

    private static boolean mayStart(NodeAct.FenceNode act, BooleanSupplier isWanted) {
        // The time last: the answer may have been late.
        boolean isInTime = isWanted.getAsBoolean() && FenceRules.mayStart(act.provedNs(), BootClock.nowNs());
        if (!isInTime) {
            LOG.warn(
                    "node {} is not fenced: it came back, or this controller was paused or is no longer the active one",
                    act.host());
        }
        return isInTime;
    }

    /** A condition on the record of a node. */
    @FunctionalInterface
    private interface RecordCondition {
        boolean allows(NodeRecord record);
    }

    /** A change of the record of a node. */
    @FunctionalInterface
    private interface RecordChange {
        NodeRecord of(NodeRecord record);
    }

    private static boolean change(
            ControllerStore store, NodeAct.FenceNode act, RecordCondition condition, RecordChange change) {
        try {
            boolean isChanged = store.changeNode(act.host(), bytes -> NodeRecord.decode(bytes)
                    .filter(record -> record.bootId().equals(act.bootId()) && condition.allows(record))
                    .map(record -> change.of(record).encode()));
            if (!isChanged) {
                LOG.warn("the record of node {} was changed, so its fence does not continue", act.host());
            }
            return isChanged;
        } catch (IOException e) {
            LOG.warn("the record of node {} was not written: {}", act.host(), e.getMessage());
            return false;
        }
    }

    /** The alarm of nodes that are held back from fences, each 30 s. */
    static final class HeldBackAlarm {
        private static final long INTERVAL_NS = Duration.ofSeconds(30).toNanos();

        private Optional<Long> writtenNs = Optional.empty();

        /** Writes it, unless it was written a moment ago. The controller's thread calls it. */
        void write(Optional<String> heldBack, long nowNs) {
            boolean isDue = writtenNs.filter(last -> nowNs - last < INTERVAL_NS).isEmpty();
            if (heldBack.isPresent() && isDue) {
                writtenNs = Optional.of(nowNs);
                LOG.error(
                        "{}. An operator must decide: check the nodes; for one that is off, type on this node: ppmr"
                                + " nodes off NODE",
                        heldBack.get());
            }
        }
    }
}
