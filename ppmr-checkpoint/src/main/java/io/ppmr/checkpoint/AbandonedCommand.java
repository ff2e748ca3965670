package io.ppmr.checkpoint;

import io.ppmr.checkpoint.SignalSender.Signal;
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

    private final List<ProcessIdentity> started;
    private final ToolKit kit;

    public AbandonedCommand(List<ProcessIdentity> started, NativePrograms programs) {
        this.started = List.copyOf(started);
        this.kit = ToolKit.of(programs, CommandTiming.defaults());
    }

    /** Ends a command with all that it has started, a restart with what it has restored. */
    public void endAll() throws CheckpointException {
        boolean gone = Patience.until(kit.timing().rollback(), () -> {
            List<ProcessIdentity> left = members();
            kit.signals().sendAll(Signal.KILL, left);
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
        CommandTiming timing = kit.timing();
        if (Patience.until(timing.cancelGrace(), () -> members().isEmpty())) {
            return;
        }
        LOG.warn("a checkpoint command of the service before does not end by itself: sending SIGTERM to {}", members());
        kit.signals().sendAll(Signal.TERM, members());
        if (Patience.until(timing.terminateGrace(), () -> members().isEmpty())) {
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
    public static void endMarked(Path directory, NativePrograms programs) throws CheckpointException {
        RestartMark.under(directory).endAll(ToolKit.of(programs, CommandTiming.defaults()));
    }

    /** Lets the processes of a rank run, but for what the job itself had stopped, and sees that they stay so. */
    public static void resume(HeldRank rank, NativePrograms programs) throws CheckpointException {
        ToolKit kit = ToolKit.of(programs, CommandTiming.defaults());
        boolean running = Patience.until(kit.timing().rollback(), () -> {
            boolean all = true;
            for (ProcessIdentity process : rank.processes()) {
                if (!rank.stoppedByJob().contains(process)
                        && kit.table().isAlive(process)
                        && !kit.table().isRunning(process)) {
                    all = false;
                    kit.signals().send(Signal.CONT, process);
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
            boolean alive = kit.table().isAlive(process);
            if (alive) {
                members.addAll(kit.table().tree(process));
            }
            boolean sameBoot = kit.table().bootId().equals(process.bootId());
            if (sameBoot && (alive || kit.table().find(process.pid()).isEmpty())) {
                members.addAll(kit.table().inSession(process.pid()));
            }
            if (alive && kit.table().isNamespaceInit(process)) {
                members.addAll(kit.table().inNamespace(process.pidNamespace()));
            }
        }
        return new ArrayList<>(members);
    }
}
