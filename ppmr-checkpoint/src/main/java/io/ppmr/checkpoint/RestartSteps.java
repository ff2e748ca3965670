package io.ppmr.checkpoint;

import io.ppmr.checkpoint.SignalSender.Signal;
import io.ppmr.os.ProcessIdentity;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/**
 * What every restart has in common: the restored processes are found, belong to the job's user and are stopped; on
 * failure everything that was restored is ended.
 */
final class RestartSteps implements RunningCommand.Steps {

    /** How one tool's restart is judged. */
    interface Finder {
        /** Whether the tool has reported success; throws {@link CheckpointException} when it has failed. */
        boolean succeeded(ToolProcess tool) throws CheckpointException;

        /** The restored processes that are to be seen now, the root first; empty if there are none yet. */
        List<ProcessIdentity> restored(ToolProcess tool) throws CheckpointException;

        /** Processes of the tool that stay as long as the restored ones live. */
        List<ProcessIdentity> companions(ToolProcess tool) throws CheckpointException;
    }

    private final RestartTask task;
    private final ToolKit kit;
    private final Optional<RankNamespace> namespace;
    private final Finder finder;
    private final Set<ProcessIdentity> seen = new LinkedHashSet<>();

    RestartSteps(RestartTask task, ToolKit kit, Optional<RankNamespace> namespace, Finder finder) {
        this.task = task;
        this.kit = kit;
        this.namespace = namespace;
        this.finder = finder;
    }

    /** The failure of a restart, with what the tool says. */
    static CheckpointException failure(RestartTask task, ToolProcess tool, Path log) {
        return failure(task, tool, log, Map.of());
    }

    /** The same, for a tool of which it is known what is to be done when it ends with a status. */
    static CheckpointException failure(RestartTask task, ToolProcess tool, Path log, Map<Integer, String> remedies) {
        return new CheckpointException(
                "rank " + task.rank() + " could not be restarted: " + tool.describeEnd(log, remedies));
    }

    @Override
    public boolean succeeded(ToolProcess tool) throws CheckpointException {
        // Remembered while the tool runs: what it has made cannot be told from strangers once it is gone.
        seen.addAll(tool.newMembers());
        boolean done = finder.succeeded(tool);
        if (done) {
            seen.addAll(finder.restored(tool));
        }
        return done;
    }

    @Override
    public HeldRank proveHeld(ToolProcess tool) throws CheckpointException {
        List<ProcessIdentity> held = new ArrayList<>();
        boolean proved = Polling.until(kit.timing().holdProof(), () -> {
            held.clear();
            held.addAll(finder.restored(tool));
            seen.addAll(held);
            return !held.isEmpty() && kit.table().whyNotHeld(held).isEmpty() && held.equals(finder.restored(tool));
        });
        if (!proved) {
            throw new CheckpointException("rank " + task.rank() + " was restarted but is not held: "
                    + kit.table()
                            .whyNotHeld(held)
                            .orElse(held.isEmpty() ? "no restored process is to be seen" : "it makes new processes")
                    + ". Remedy: the restart command must leave every process stopped");
        }
        for (ProcessIdentity process : held) {
            kit.table().requireOwner(process, task.user());
        }
        Set<ProcessIdentity> companions = new LinkedHashSet<>(finder.companions(tool));
        namespace.ifPresent(own -> companions.add(own.init()));
        return new HeldProcesses(task.rank(), held, new ArrayList<>(companions));
    }

    @Override
    public boolean toolMayBeKilled() {
        return true;
    }

    @Override
    public void undo() throws CheckpointException {
        if (namespace.isPresent()) {
            namespace.get().end(kit.table(), kit.signals(), kit.timing().rollback());
        }
        Set<ProcessIdentity> all = new LinkedHashSet<>(seen);
        for (ProcessIdentity process : seen) {
            all.addAll(kit.table().tree(process));
        }
        kit.signals().sendAll(Signal.KILL, new ArrayList<>(all));
        // A copy that was made in the moment in which its restart was killed, in a session of its own, nobody has seen.
        RestartMark.of(task).endAll(kit.table(), kit.signals(), kit.timing().rollback());
        if (!Polling.until(kit.timing().rollback(), () -> all.stream().noneMatch(kit.table()::isAlive))) {
            throw new CheckpointException("rank " + task.rank() + ": what the failed restart has restored does not end:"
                    + " PIDs "
                    + all.stream()
                            .filter(kit.table()::isAlive)
                            .map(ProcessIdentity::pid)
                            .toList()
                    + ". Remedy: a process in state D waits for its filesystem; abort that mount");
        }
    }
}
