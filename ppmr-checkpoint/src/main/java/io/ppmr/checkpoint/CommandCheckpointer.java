package io.ppmr.checkpoint;

import io.ppmr.checkpoint.Checkpointer.Availability;
import io.ppmr.checkpoint.Checkpointer.CheckpointTask;
import io.ppmr.checkpoint.Checkpointer.RestartTask;
import io.ppmr.checkpoint.Checkpointer.RunAs;
import io.ppmr.checkpoint.CheckpointerSettings.NamespacePolicy;
import io.ppmr.linux.KernelFeatures;
import io.ppmr.linux.ProcessIdentity;
import io.ppmr.protocol.data.ReadingMode;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** Any two commands. {@link CheckpointerSettings.CommandTool} has the requirements for them. */
record CommandCheckpointer(String name, CheckpointerSettings.CommandTool settings, ToolKit kit)
        implements Checkpointer {
    @Override
    public Availability probe() {
        Optional<String> missing = kit.programs().missing();
        if (missing.isPresent()) {
            return Availability.lacking(
                    missing.get(), "build the project, or set " + NativePrograms.DIRECTORY_PROPERTY);
        }
        Optional<String> none = RankNamespace.whyNone(KernelFeatures.here());
        if (settings.namespaces() == NamespacePolicy.ALWAYS && none.isPresent()) {
            return Availability.lacking(none.get(), "set namespaces to \"never\"");
        }
        for (List<String> command : List.of(settings.checkpoint(), settings.restart())) {
            if (ToolKit.find(command.get(0)).isEmpty()) {
                return Availability.lacking(
                        command.get(0) + " is not installed",
                        "install it, or correct the command in the configuration");
            }
        }
        return Availability.present(
                settings.checkpoint().get(0) + " and " + settings.restart().get(0) + " are installed");
    }

    @Override
    public ReadingMode readingMode() {
        return settings.readingMode();
    }

    @Override
    public List<String> expectedNames(int rank) {
        return CommandTemplate.fill(settings.expectedNames(), Map.of("rank", Integer.toString(rank)));
    }

    @Override
    public List<String> completionNames(int rank) {
        return CommandTemplate.fill(settings.completionNames(), Map.of("rank", Integer.toString(rank)));
    }

    @Override
    public Optional<String> finalNameOf(String temporaryName) {
        // The longest suffix that fits is the most specific rule.
        return settings.temporarySuffixes().entrySet().stream()
                .filter(rule -> temporaryName.length() > rule.getKey().length())
                .filter(rule -> temporaryName.endsWith(rule.getKey()))
                .max((a, b) -> Integer.compare(a.getKey().length(), b.getKey().length()))
                .map(rule -> temporaryName.substring(
                                0, temporaryName.length() - rule.getKey().length())
                        + rule.getValue());
    }

    @Override
    public RunAs runAs() {
        return settings.runAs();
    }

    @Override
    public boolean checkpointsHeldRanks() {
        return settings.checkpointsHeldRanks();
    }

    @Override
    public boolean writesInProcess() {
        return settings.writesInProcess();
    }

    @Override
    public void requireReachable(Map<Integer, ProcessIdentity> roots) throws CheckpointException {
        RankPlace.ofAll(roots, kit.table().snapshot());
    }

    /** Returns the first word of a command. Later words may be a job's files, which are not in each mount namespace. */
    private static List<String> programs(List<String> template) {
        return template.subList(0, 1);
    }

    @Override
    public RankCommand checkpoint(CheckpointTask task) throws CheckpointException {
        String name = "checkpoint-" + task.rank();
        Optional<JobUser> user = unlessRoot(settings.runAs().checkpointsAsRoot(), task.user());
        Path toolDirectory = kit.toolDirectory(task.workDirectory(), user);
        CheckpointSteps steps = new CheckpointSteps(task, kit, toolDirectory.resolve(name + ".log"), Map.of());
        Map<String, String> values = values(task.rank(), task.imageDirectory(), toolDirectory);
        values.put("pid", Integer.toString(kit.pidFor(task)));
        List<String> command = kit.launchFor(task, kit.launch(user), programs(settings.checkpoint()));
        command.addAll(CommandTemplate.fill(settings.checkpoint(), values));
        return steps.start(name, command, user);
    }

    @Override
    public RankCommand restart(RestartTask task) throws CheckpointException {
        String name = "restart-" + task.rank();
        Optional<JobUser> user = unlessRoot(settings.runAs().restartsAsRoot(), task.user());
        Path pidFile = kit.freshFile(task.workDirectory(), user, name + ".pid");
        Optional<RankNamespace.Planned> namespace = settings.namespaces() == NamespacePolicy.ALWAYS
                ? Optional.of(RankNamespace.Planned.of(kit, task, name))
                : Optional.empty();
        Path directory = namespace.isPresent() ? Path.of(".") : task.imageDirectory();
        Map<String, String> values = values(task.rank(), directory, pidFile.getParent());
        values.put("pidfile", pidFile.toString());
        List<String> command =
                kit.launchInNew(namespace, task.imageDirectory(), kit.launch(user), programs(settings.restart()));
        command.addAll(CommandTemplate.fill(settings.restart(), values));
        boolean writesPid = settings.restart().stream().anyMatch(word -> word.contains("{pidfile}"));
        Path log = pidFile.resolveSibling("restart.log");
        RestartSteps steps = writesPid
                ? new ByPidFile(task, kit, namespace, pidFile, log)
                : new ByDescent(task, kit, namespace, log);
        return steps.start(name, command, user);
    }

    private static Optional<JobUser> unlessRoot(boolean asRoot, JobUser user) {
        return asRoot ? Optional.empty() : Optional.of(user);
    }

    private Map<String, String> values(int rank, Path directory, Path toolDirectory) {
        Map<String, String> values = new HashMap<>();
        values.put("rank", Integer.toString(rank));
        values.put(
                "file",
                directory
                        .resolve(CommandTemplate.fill(settings.fileName(), values))
                        .toString());
        values.put("dir", directory.toString());
        values.put("work", toolDirectory.toString());
        return values;
    }

    /** The command writes the root's PID to a file. */
    private static final class ByPidFile extends RestartSteps {
        private final Path pidFile;
        private final Path log;

        ByPidFile(RestartTask task, ToolKit kit, Optional<RankNamespace.Planned> namespace, Path pidFile, Path log) {
            super(task, kit, namespace);
            this.pidFile = pidFile;
            this.log = log;
        }

        @Override
        boolean reportsSuccess(ToolProcess tool) throws CheckpointException {
            Optional<Integer> exitCode = tool.exitCode();
            boolean named = readPid(pidFile, task.user(), exitCode.isEmpty()).isPresent();
            if (exitCode.isPresent() && (exitCode.get() != 0 || !named)) {
                throw failure(tool, log, Map.of());
            }
            return named;
        }

        @Override
        List<ProcessIdentity> restored(ToolProcess tool, ProcessSnapshot now) throws CheckpointException {
            Optional<ProcessIdentity> root = root(tool, now);
            return rank(root, helperProcesses(tool, root, now), now);
        }

        @Override
        List<ProcessIdentity> helperProcesses(ToolProcess tool, ProcessSnapshot now) throws CheckpointException {
            return helperProcesses(tool, root(tool, now), now);
        }

        private static List<ProcessIdentity> helperProcesses(
                ToolProcess tool, Optional<ProcessIdentity> root, ProcessSnapshot now) {
            List<ProcessIdentity> companions = new ArrayList<>(tool.tree(now));
            root.ifPresent(one -> companions.removeAll(now.tree(one)));
            return companions;
        }

        private Optional<ProcessIdentity> root(ToolProcess tool, ProcessSnapshot now) throws CheckpointException {
            int pid = readPid(pidFile, task.user(), false)
                    .orElseThrow(() -> new CheckpointException(
                            "rank " + task.rank() + ": " + pidFile + " was emptied by the restart command"));
            Optional<ProcessIdentity> root = root(pid, now);
            if (root.isPresent() && root.get().startTimeTicks() < tool.startedNotBeforeTicks()) {
                throw new CheckpointException("rank " + task.rank() + ": the restart command names PID " + pid
                        + " as restored, but that process is older than the command. Remedy: correct the command");
            }
            return root;
        }
    }

    /** The command keeps running and its descendants are the rank, or the command itself is the rank. */
    private static final class ByDescent extends RestartSteps {
        /**
         * Fraction of a core for scans. Only a scan shows the success, so scans are more frequent than for new members.
         */
        private static final int SCAN_SHARE = 4;

        private final Path log;

        ByDescent(RestartTask task, ToolKit kit, Optional<RankNamespace.Planned> namespace, Path log) {
            super(task, kit, namespace);
            this.log = log;
        }

        @Override
        boolean reportsSuccess(ToolProcess tool) throws CheckpointException {
            if (tool.exitCode().isPresent()) {
                throw failure(tool, log, Map.of());
            }
            // A recent scan suffices, because this only decides whether a proof is useful.
            List<ProcessIdentity> rank = restored(tool, kit.table().recentSnapshot(SCAN_SHARE));
            return !rank.isEmpty() && kit.table().whyNotHeld(rank).isEmpty();
        }

        @Override
        List<ProcessIdentity> restored(ToolProcess tool, ProcessSnapshot now) {
            List<ProcessIdentity> tree = tool.tree(now);
            return tree.subList(own(tree), tree.size());
        }

        @Override
        List<ProcessIdentity> helperProcesses(ToolProcess tool, ProcessSnapshot now) {
            List<ProcessIdentity> tree = tool.tree(now);
            return tree.subList(0, own(tree));
        }

        /**
         * Counts the processes at the head of the tree that do not belong to the rank: nsenter, and a command with
         * children.
         */
        private int own(List<ProcessIdentity> tree) {
            int entering = namespace.isPresent() ? 1 : 0;
            return Math.min(tree.size(), tree.size() > entering + 1 ? entering + 1 : entering);
        }
    }
}
