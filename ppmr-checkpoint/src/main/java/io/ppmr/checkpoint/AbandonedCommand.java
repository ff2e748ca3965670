package io.ppmr.checkpoint;

import io.ppmr.checkpoint.SignalSender.Signal;
import io.ppmr.os.ProcessIdentity;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A checkpoint or restart whose service has died: the tool goes on without it, since it has a session of its own. It is
 * known by what {@link RankCommand#started} named. Immutable, for any thread.
 */
public final class AbandonedCommand {
    private static final Logger LOG = LoggerFactory.getLogger(AbandonedCommand.class);

    private static final CommandTiming TIMING = CommandTiming.defaults();

    private final List<ProcessIdentity> started;
    private final ProcessTable table = new ProcessTable();
    private final SignalSender signals = new SignalSender(table);

    public AbandonedCommand(List<ProcessIdentity> started) {
        this.started = List.copyOf(started);
    }

    /** Ends a command with all that it has started, a restart with what it has restored. */
    public void endAll() throws CheckpointException {
        boolean gone = Polling.until(TIMING.rollback(), () -> {
            List<ProcessIdentity> left = members();
            signals.sendAll(Signal.KILL, left);
            return left.isEmpty();
        });
        if (!gone) {
            throw new CheckpointException("what a command of the service before has started does not end: " + members()
                    + ". Remedy: a process in state D waits for its filesystem; abort that mount");
        }
    }

    /**
     * Ends a checkpoint command: time to end by itself, SIGTERM, SIGKILL, as for one that is cancelled.
     *
     * @throws CheckpointException if it does not even end on SIGKILL
     */
    public void endPatiently() throws CheckpointException {
        if (Polling.until(TIMING.cancelGrace(), () -> members().isEmpty())) {
            return;
        }
        LOG.warn("a checkpoint command of the service before does not end by itself: sending SIGTERM to {}", members());
        signals.sendAll(Signal.TERM, members());
        if (Polling.until(TIMING.terminateGrace(), () -> members().isEmpty())) {
            return;
        }
        LOG.error(
                "{} does not end on SIGTERM: sending SIGKILL. If it was writing a checkpoint, the process may be left"
                        + " damaged",
                members());
        endAll();
    }

    /**
     * Ends what restarts have started in sessions of its own, known by its environment.
     *
     * @param directory under which the work directories of those restarts were
     */
    public static void endMarked(Path directory) throws CheckpointException {
        ProcessTable table = new ProcessTable();
        RestartMark.under(directory).endAll(table, new SignalSender(table), TIMING.rollback());
    }

    /** Lets the processes of a rank run, but for what the job itself had stopped, and sees that they stay so. */
    public static void resume(HeldRank rank) throws CheckpointException {
        ProcessTable table = new ProcessTable();
        SignalSender signals = new SignalSender(table);
        boolean running = Polling.until(TIMING.rollback(), () -> {
            boolean all = true;
            for (ProcessIdentity process : rank.processes()) {
                if (!rank.stoppedByJob().contains(process) && table.isAlive(process) && !table.isRunning(process)) {
                    all = false;
                    signals.send(Signal.CONT, process);
                }
            }
            return all;
        });
        if (!running) {
            throw new CheckpointException("rank " + rank.rank() + ": its processes do not run again after SIGCONT");
        }
    }

    /** What is alive of it: the tools with all that shares their sessions, and everything in the namespaces. */
    private List<ProcessIdentity> members() {
        Set<ProcessIdentity> members = new LinkedHashSet<>();
        for (ProcessIdentity process : started) {
            boolean alive = table.isAlive(process);
            if (alive) {
                members.addAll(table.tree(process));
            }
            boolean sameBoot = table.bootId().equals(process.bootId());
            if (sameBoot && (alive || table.find(process.pid()).isEmpty())) {
                members.addAll(table.inSession(process.pid()));
            }
            if (alive && table.isNamespaceInit(process)) {
                members.addAll(table.inNamespace(process.pidNamespace()));
            }
        }
        return new ArrayList<>(members);
    }
}
