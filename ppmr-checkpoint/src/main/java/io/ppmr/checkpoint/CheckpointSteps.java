package io.ppmr.checkpoint;

import io.ppmr.checkpoint.Checkpointer.CheckpointTask;
import io.ppmr.checkpoint.SignalSender.Signal;
import io.ppmr.checkpoint.ToolProcess.LogWords;
import io.ppmr.linux.ProcessIdentity;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/** The steps of every checkpoint. Success is exit status 0. After a failure the originals continue. */
final class CheckpointSteps implements RankCommand.Steps {
    private final CheckpointTask task;
    private final ToolKit kit;
    private final Path log;
    private final Map<Integer, String> remedies;
    private final LogWords meaning;
    private final List<ProcessIdentity> originals;
    private final Set<ProcessIdentity> stoppedBefore;
    private final Set<ProcessIdentity> stoppedByJob;
    /** The processes to which {@link #stop} has sent SIGSTOP. */
    private final Set<ProcessIdentity> signalled = new LinkedHashSet<>();

    /** Makes the steps of a tool with an unknown log format. */
    CheckpointSteps(CheckpointTask task, ToolKit kit, Path log, Map<Integer, String> remedies)
            throws CheckpointException {
        this(task, kit, log, remedies, LogWords.UNKNOWN);
    }

    /**
     * Notes the rank's processes and which of them are stopped. It is made before the tool starts. Otherwise a process
     * that the tool stops at once would count as stopped before, and stay stopped after a failure.
     *
     * @param log the tool's own log, quoted when it fails
     * @param remedies remedy for each known exit status of the tool
     * @param meaning explains that log
     */
    CheckpointSteps(CheckpointTask task, ToolKit kit, Path log, Map<Integer, String> remedies, LogWords meaning)
            throws CheckpointException {
        this.task = task;
        this.kit = kit;
        this.log = log;
        this.remedies = remedies;
        this.meaning = meaning;
        this.originals = kit.requireTree(task);
        this.stoppedBefore = new LinkedHashSet<>(originals.stream()
                .filter(process -> !kit.table().isRunning(process))
                .toList());
        // A process that was continued since it was found stopped must run.
        this.stoppedByJob = new LinkedHashSet<>(originals);
        stoppedByJob.removeIf(process ->
                !task.stoppedByJob().contains(process) || !kit.table().isHeld(process));
    }

    /**
     * Stops the whole rank before the tool is started, and returns its processes. Then it is stopped whatever happens
     * to the tool. If they cannot be stopped in time, they continue, and this throws.
     */
    List<ProcessIdentity> stop() throws CheckpointException {
        List<ProcessIdentity> tree = new ArrayList<>();
        try {
            boolean stopped = Polling.until(kit.timing().holdProof(), () -> {
                tree.clear();
                tree.addAll(kit.table().tree(task.root()));
                Set<Integer> held = new HashSet<>();
                List<ProcessIdentity> running = new ArrayList<>();
                List<ProcessIdentity> next = new ArrayList<>();
                for (ProcessIdentity process : tree) {
                    if (kit.table().isHeld(process)) {
                        held.add(process.pid());
                        continue;
                    }
                    running.add(process);
                    // A parent that waits for its child to start a program (vfork) stops only after that.
                    boolean isNext = process.equals(task.root())
                            || held.contains(kit.table().parent(process));
                    // A second SIGSTOP would wait in a process that is stopped by then, and would interrupt CRIU's work
                    // in it. The checkpoint would fail ("Unexpected task interruption").
                    if (isNext && !kit.table().isStopping(process)) {
                        next.add(process);
                    }
                }
                signalled.addAll(next);
                kit.signals().sendAll(Signal.STOP, next);
                // Stopped processes make no new ones. Two equal scans show the whole rank.
                return running.isEmpty() && tree.equals(kit.table().tree(task.root()));
            });
            // Processes that were reparented in the meantime (daemons) do not belong to the rank.
            List<ProcessIdentity> left = new ArrayList<>(signalled);
            left.removeAll(tree);
            kit.signals().resume(task.rank(), left, kit.timing().rollback());
            if (!stopped || tree.isEmpty()) {
                throw new CheckpointException("rank " + task.rank() + " could not be stopped within "
                        + kit.timing().holdProof() + ": "
                        + kit.table().whyNotHeld(tree).orElse("it makes new processes, or ended"));
            }
            return List.copyOf(tree);
        } catch (CheckpointException | RuntimeException e) {
            undo();
            throw e;
        }
    }

    /** Starts the tool and watches it. {@code user} is empty for the service's own. */
    RankCommand start(String name, List<String> command, Optional<JobUser> user) throws CheckpointException {
        return watch(ToolProcess.start(name, command, task.workDirectory(), user, kit));
    }

    /** Watches a tool that runs already. */
    RankCommand watch(ToolProcess tool) {
        return RankCommand.watch(
                "checkpoint of rank " + task.rank(), tool, Optional.empty(), this, task.deadline(), kit);
    }

    @Override
    public boolean succeeded(ToolProcess tool) throws CheckpointException {
        var exitCode = tool.exitCode();
        if (exitCode.isPresent() && exitCode.get() != 0) {
            throw new CheckpointException(
                    "rank " + task.rank() + " could not be checkpointed: " + tool.describeEnd(log, remedies, meaning));
        }
        return exitCode.isPresent();
    }

    @Override
    public HeldRank proveHeld(ToolProcess tool) throws CheckpointException {
        List<ProcessIdentity> held = new ArrayList<>();
        ProcessSnapshot[] last = new ProcessSnapshot[1];
        StopState[] found = new StopState[1];
        boolean proved = Polling.until(kit.timing().holdProof(), () -> {
            held.clear();
            last[0] = kit.table().snapshot();
            held.addAll(last[0].tree(task.root()));
            // Stopped processes make no new ones. A tree that is held, and equal afterwards, is the whole rank.
            found[0] = kit.table().standstill(held);
            return !held.isEmpty()
                    && found[0].isHeld()
                    && held.equals(kit.table().tree(task.root()));
        });
        if (!proved) {
            throw new CheckpointException("rank " + task.rank() + " was checkpointed but is not held: "
                    + kit.table()
                            .whyNotHeld(held)
                            .orElse(held.isEmpty() ? "its root is gone" : "it makes new processes")
                    + ". Remedy: the checkpoint command must leave every process stopped");
        }
        List<ProcessIdentity> companions = RankNamespace.around(kit.table(), last[0], task.root())
                .map(namespace -> List.of(namespace.init()))
                .orElse(List.of());
        stoppedByJob.retainAll(held);
        return HeldRank.of(task.rank(), held, companions, found[0]).withStoppedByJob(stoppedByJob);
    }

    @Override
    public boolean toolMayBeKilled() {
        return false;
    }

    @Override
    public void undo() throws CheckpointException {
        if (task.pod().isPresent()) {
            // The pod stays stopped until its network is restored. A failing CRIU releases its processes soon.
            Polling.until(kit.timing().rollback(), () -> signalled.stream().noneMatch(kit.table()::isTraced));
            return;
        }
        Set<ProcessIdentity> all = new LinkedHashSet<>(originals);
        all.addAll(signalled);
        all.addAll(kit.table().tree(task.root()));
        all.removeAll(stoppedBefore);
        if (!signalled.isEmpty()) {
            // A CRIU that has lost its reader releases its processes soon, and leaves them stopped as it found them.
            Polling.until(kit.timing().rollback(), () -> all.stream().noneMatch(kit.table()::isTraced));
        }
        kit.signals().resume(task.rank(), all, kit.timing().rollback());
        if (!kit.table().isAlive(task.root())) {
            throw new CheckpointException(
                    "rank " + task.rank() + ": PID " + task.root().pid() + " is gone");
        }
    }
}
