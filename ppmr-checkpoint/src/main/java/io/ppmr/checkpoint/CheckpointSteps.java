package io.ppmr.checkpoint;

import io.ppmr.checkpoint.SignalSender.Signal;
import io.ppmr.os.ProcessIdentity;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** What every checkpoint has in common: success is exit status 0, and on failure the originals go on. */
final class CheckpointSteps implements RunningCommand.Steps {
    private final CheckpointTask task;
    private final ToolKit kit;
    private final Path log;
    private final Map<Integer, String> remedies;
    private final List<ProcessIdentity> originals;
    private final Set<ProcessIdentity> stoppedBefore;
    private final Set<ProcessIdentity> stoppedByJob;

    /**
     * @param originals the rank's processes before the tool was started
     * @param log the tool's own log, quoted when it fails
     */
    CheckpointSteps(CheckpointTask task, ToolKit kit, List<ProcessIdentity> originals, Path log) {
        this(task, kit, originals, log, Map.of());
    }

    /** @param remedies what is to be done when the tool ends with a status, for those of which that is known */
    CheckpointSteps(
            CheckpointTask task,
            ToolKit kit,
            List<ProcessIdentity> originals,
            Path log,
            Map<Integer, String> remedies) {
        this.task = task;
        this.kit = kit;
        this.log = log;
        this.remedies = Map.copyOf(remedies);
        this.originals = List.copyOf(originals);
        this.stoppedBefore = new LinkedHashSet<>(originals.stream()
                .filter(process -> !kit.table().isRunning(process))
                .toList());
        // One that was continued since it was found stopped is to run.
        this.stoppedByJob = new LinkedHashSet<>(originals);
        stoppedByJob.removeIf(process ->
                !task.stoppedByJob().contains(process) || !kit.table().isHeld(process));
    }

    @Override
    public boolean succeeded(ToolProcess tool) throws CheckpointException {
        var exitCode = tool.exitCode();
        if (exitCode.isPresent() && exitCode.get() != 0) {
            throw new CheckpointException(
                    "rank " + task.rank() + " could not be checkpointed: " + tool.describeEnd(log, remedies));
        }
        return exitCode.isPresent();
    }

    @Override
    public HeldRank proveHeld(ToolProcess tool) throws CheckpointException {
        List<ProcessIdentity> held = new ArrayList<>();
        boolean proved = Polling.until(kit.timing().holdProof(), () -> {
            held.clear();
            held.addAll(kit.table().tree(task.root()));
            // Stopped processes make no new ones: a tree that is all held, and the same afterwards, is the whole rank.
            return !held.isEmpty()
                    && kit.table().whyNotHeld(held).isEmpty()
                    && held.equals(kit.table().tree(task.root()));
        });
        if (!proved) {
            throw new CheckpointException("rank " + task.rank() + " was checkpointed but is not held: "
                    + kit.table()
                            .whyNotHeld(held)
                            .orElse(held.isEmpty() ? "its root is gone" : "it makes new processes")
                    + ". Remedy: the checkpoint command must leave every process stopped");
        }
        List<ProcessIdentity> companions = RankNamespace.around(kit.table(), task.root())
                .map(namespace -> List.of(namespace.init()))
                .orElse(List.of());
        stoppedByJob.retainAll(held);
        return new HeldProcesses(task.rank(), held, companions).leavingStopped(stoppedByJob);
    }

    @Override
    public boolean toolMayBeKilled() {
        return false;
    }

    @Override
    public void undo() throws CheckpointException {
        Set<ProcessIdentity> all = new LinkedHashSet<>(originals);
        all.addAll(kit.table().tree(task.root()));
        all.removeAll(stoppedBefore);
        // Asked repeatedly: a SIGSTOP that was sent before the tool ended may take effect after the first SIGCONT.
        boolean running = Polling.until(kit.timing().rollback(), () -> {
            boolean allRunning = true;
            for (ProcessIdentity process : all) {
                if (kit.table().isAlive(process) && !kit.table().isRunning(process)) {
                    allRunning = false;
                    kit.signals().send(Signal.CONT, process);
                }
            }
            return allRunning;
        });
        if (!running) {
            throw new CheckpointException("rank " + task.rank() + ": its processes do not run again after SIGCONT");
        }
        if (!kit.table().isAlive(task.root())) {
            throw new CheckpointException(
                    "rank " + task.rank() + ": PID " + task.root().pid() + " is gone");
        }
    }
}
