package io.ppmr.checkpoint;

import io.ppmr.checkpoint.Checkpointer.RestartTask;
import io.ppmr.checkpoint.ToolProcess.LogWords;
import io.ppmr.linux.ProcessIdentity;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/**
 * The steps of every restart. The restored processes are found, belong to the job's user, and are stopped. After a
 * failure all of them are killed.
 */
abstract class RestartSteps implements RankCommand.Steps {

    final RestartTask task;
    final ToolKit kit;
    /** The namespace that the start of the restart makes, or empty if the rank has none. */
    private final Optional<RankNamespace.Planned> planned;

    /** The rank's own namespace, once the restart has been started, if one is planned. */
    Optional<RankNamespace> namespace = Optional.empty();

    private final Set<ProcessIdentity> seen = new LinkedHashSet<>();
    private final RestartMark mark;

    RestartSteps(RestartTask task, ToolKit kit, Optional<RankNamespace.Planned> planned) {
        this.task = task;
        this.kit = kit;
        this.planned = planned;
        this.mark = RestartMark.draw(task.user());
    }

    /** Returns whether the tool has reported success. Throws {@link CheckpointException} after a failure. */
    abstract boolean reportsSuccess(ToolProcess tool) throws CheckpointException;

    /** Returns the restored processes in a scan, the root first, or empty if there are none yet. */
    abstract List<ProcessIdentity> restored(ToolProcess tool, ProcessSnapshot now) throws CheckpointException;

    /** Returns processes of the tool that stay as long as the restored ones live. */
    abstract List<ProcessIdentity> helperProcesses(ToolProcess tool, ProcessSnapshot now) throws CheckpointException;

    /**
     * Starts the tool, which makes the planned namespace, and watches it. If that fails, neither the tool nor the
     * namespace remains.
     *
     * @param user the user that the command runs as; empty for the service's own
     */
    RankCommand start(String name, List<String> command, Optional<JobUser> user) throws CheckpointException {
        List<String> marked = new ArrayList<>(command);
        marked.addAll(command.indexOf("--"), List.of("--env", mark.variable()));
        try {
            mark.note(task.workDirectory());
        } catch (IOException e) {
            throw new CheckpointException(
                    "rank " + task.rank() + " is not restarted: the note of its restart cannot be written beside "
                            + task.workDirectory() + " (" + e.getMessage() + "). Remedy: make room there",
                    e);
        }
        ToolProcess tool = ToolProcess.start(name, marked, task.workDirectory(), user, kit);
        if (planned.isPresent()) {
            namespace = Optional.of(planned.get().made(kit, tool));
        }
        return RankCommand.watch(
                "restart of rank " + task.rank(), tool, namespace.map(RankNamespace::init), this, task.deadline(), kit);
    }

    private void endNamespace() throws CheckpointException {
        if (namespace.isPresent()) {
            namespace.get().end(kit.table(), kit.signals(), kit.timing().rollback());
        }
    }

    /** Returns the failure of a restart, with the tool's output. */
    CheckpointException failure(ToolProcess tool, Path log, Map<Integer, String> remedies) {
        return failure(tool, log, remedies, LogWords.UNKNOWN);
    }

    /** Returns the failure of a restart, with the tool's output, and the meaning of its log. */
    CheckpointException failure(ToolProcess tool, Path log, Map<Integer, String> remedies, LogWords meaning) {
        return new CheckpointException(
                "rank " + task.rank() + " could not be restarted: " + tool.describeEnd(log, remedies, meaning));
    }

    /**
     * Returns the number in the file; empty as long as there is no file, or it is empty. Other content of a user's file
     * is not quoted.
     *
     * @param user owner of the file, if it is not root
     * @param needsLineEnd whether it may still be being written, so that only a line end shows that it is complete
     */
    static Optional<Integer> readPid(Path file, JobUser user, boolean needsLineEnd) throws CheckpointException {
        String text;
        try {
            text = UserPath.read(file, user, UserPath.MAX_TEXT_BYTES).orElse("");
        } catch (IOException e) {
            throw new CheckpointException("no PID can be read: " + e.getMessage(), e);
        }
        if (text.isBlank() || (needsLineEnd && !text.endsWith("\n"))) {
            return Optional.empty();
        }
        if (!text.strip().matches("[1-9][0-9]{0,8}")) {
            throw new CheckpointException(
                    file + " must contain only a PID. Remedy: correct the program that writes it");
        }
        return Optional.of(Integer.valueOf(text.strip()));
    }

    /**
     * Returns the root of the rank, if it lives, from the PID that the tool wrote in its own PID namespace.
     *
     * @param pid its PID inside the namespace, if there is one
     */
    final Optional<ProcessIdentity> root(int pid, ProcessSnapshot now) throws CheckpointException {
        return namespace.isEmpty() ? kit.table().find(pid) : namespace.get().member(kit.table(), pid, now);
    }

    /**
     * Returns all processes of the rank, the root first: its tree, and the other processes of the rank's own namespace.
     *
     * @param others processes in the namespace that do not belong to the rank
     */
    final List<ProcessIdentity> rank(
            Optional<ProcessIdentity> root, List<ProcessIdentity> others, ProcessSnapshot now) {
        if (root.isEmpty()) {
            return List.of();
        }
        Set<ProcessIdentity> rank = new LinkedHashSet<>(now.tree(root.get()));
        namespace.ifPresent(own -> own.members(now).stream()
                .filter(process -> !others.contains(process))
                .forEach(rank::add));
        return List.copyOf(rank);
    }

    @Override
    public final boolean succeeded(ToolProcess tool) throws CheckpointException {
        // The members are noted while the tool runs, because they cannot be distinguished from foreign processes after
        // that.
        seen.addAll(tool.newMembers());
        try {
            return reportsSuccess(tool);
        } catch (CheckpointException | RuntimeException e) {
            seen.addAll(tool.members());
            throw e;
        }
    }

    /** The failure of processes that ended with their tool, perhaps on their own request. */
    private static final String GONE = "no restored process was found. A process that has requested a signal at its"
            + " parent's end (PR_SET_PDEATHSIG of prctl(2), setpriv --pdeathsig) gets it when the restart command ends:"
            + " start the job without that";

    @Override
    public final HeldRank proveHeld(ToolProcess tool) throws CheckpointException {
        List<ProcessIdentity> held = new ArrayList<>();
        StopState[] found = new StopState[1];
        boolean proved = Polling.until(kit.timing().holdProof(), () -> {
            held.clear();
            held.addAll(restored(tool, kit.table().snapshot()));
            seen.addAll(held);
            found[0] = kit.table().standstill(held);
            return !held.isEmpty() && found[0].isHeld() && isStill(held, tool);
        });
        if (!proved) {
            throw new CheckpointException("rank " + task.rank() + " was restarted but is not held: "
                    + kit.table().whyNotHeld(held).orElse(held.isEmpty() ? GONE : "it makes new processes")
                    + ". Remedy: the restart command must leave every process stopped");
        }
        for (ProcessIdentity process : held) {
            kit.table().requireOwner(process, task.user());
        }
        Set<ProcessIdentity> companions =
                new LinkedHashSet<>(helperProcesses(tool, kit.table().snapshot()));
        namespace.ifPresent(own -> companions.add(own.init()));
        HeldRank rank = HeldRank.of(task.rank(), held, new ArrayList<>(companions), found[0]);
        inspect(rank);
        // A process that is not in the list was made by a running process, and was not checked.
        if (!isStill(held, tool)) {
            throw new CheckpointException("rank " + task.rank() + " was restarted, but its processes changed after the"
                    + " check: it was continued from outside. Remedy: the restart command must leave it stopped");
        }
        rank.requireHeld();
        return rank;
    }

    /** Checks once more whether the rank has the same processes. */
    private boolean isStill(List<ProcessIdentity> held, ToolProcess tool) throws CheckpointException {
        return held.equals(restored(tool, kit.table().snapshot()));
    }

    /** Checks the held processes that were restored. Throws if they must not be continued. */
    void inspect(HeldRank restored) throws CheckpointException {}

    @Override
    public final boolean toolMayBeKilled() {
        return true;
    }

    @Override
    public final void undo() throws CheckpointException {
        endNamespace();
        Set<ProcessIdentity> all = new LinkedHashSet<>(seen);
        all.addAll(kit.table().trees(seen));
        kit.signals().killChildrenFirst(all);
        // A scan may have missed a copy that was made while its restart was killed, in a session of its own.
        mark.endAll(kit.table(), kit.signals(), kit.timing().rollback());
        if (!Polling.until(kit.timing().rollback(), () -> all.stream().noneMatch(kit.table()::isAlive))) {
            throw new CheckpointException("rank " + task.rank() + ": processes of the failed restart do not end:"
                    + " PIDs "
                    + all.stream()
                            .filter(kit.table()::isAlive)
                            .map(ProcessIdentity::pid)
                            .toList()
                    + ". Remedy: a process in state D waits for its filesystem; abort that mount");
        }
    }
}
