package io.ppmr.checkpoint;

import io.ppmr.os.KernelFeatures;
import io.ppmr.os.ProcessIdentity;
import io.ppmr.protocol.data.ReadingMode;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** Any two commands; {@link CheckpointerSettings.Command} says what is expected of them. */
final class CommandCheckpointer implements Checkpointer {
    private final CheckpointerSettings.Command settings;
    private final ToolKit kit;

    CommandCheckpointer(CheckpointerSettings.Command settings, ToolKit kit) {
        this.settings = settings;
        this.kit = kit;
    }

    @Override
    public String name() {
        return "command";
    }

    @Override
    public Availability probe() {
        Optional<String> missing = kit.programs().missing();
        if (missing.isPresent()) {
            return new Availability(
                    false, missing.get(), "build the project, or set " + NativePrograms.DIRECTORY_PROPERTY);
        }
        Optional<String> none = RankNamespace.whyNone(KernelFeatures.here());
        if (settings.namespaces() == NamespacePolicy.ALWAYS && none.isPresent()) {
            return new Availability(false, none.get(), "set namespaces to \"never\"");
        }
        for (List<String> command : List.of(settings.checkpoint(), settings.restart())) {
            if (ToolKit.find(command.get(0)).isEmpty()) {
                return new Availability(
                        false,
                        command.get(0) + " is not installed",
                        "install it, or correct the command in the configuration");
            }
        }
        return new Availability(
                true,
                settings.checkpoint().get(0) + " and " + settings.restart().get(0) + " are there",
                "");
    }

    @Override
    public ReadingMode readingMode() {
        return settings.readingMode();
    }

    @Override
    public List<String> announcedNames(int rank) {
        return CommandTemplate.fill(settings.announcedNames(), Map.of("rank", Integer.toString(rank)));
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
    public boolean writesFromWithin() {
        return settings.writesFromWithin();
    }

    @Override
    public RankCommand checkpoint(CheckpointTask task) throws CheckpointException {
        List<ProcessIdentity> originals = kit.requireTree(task);
        Optional<JobUser> user = unlessRoot(settings.runAs().checkpointsAsRoot(), task.user());
        Path toolDirectory = kit.toolDirectory(task.workDirectory(), user);
        Map<String, String> values = values(task.rank(), task.imageDirectory(), toolDirectory);
        values.put("pid", Integer.toString(kit.pidFor(task)));
        List<String> command = new ArrayList<>(kit.launchFor(task, user));
        command.addAll(CommandTemplate.fill(settings.checkpoint(), values));
        String name = "checkpoint-" + task.rank();
        // Before the tool starts: what it stops at once would count as stopped before, and stay so when it fails.
        CheckpointSteps steps = new CheckpointSteps(task, kit, originals, toolDirectory.resolve(name + ".log"));
        ToolProcess tool = ToolProcess.start(name, command, task.workDirectory(), user, kit);
        return RunningCommand.watch(
                "checkpoint of rank " + task.rank(), tool, Optional.empty(), steps, task.deadline(), kit);
    }

    @Override
    public RankCommand restart(RestartTask task) throws CheckpointException {
        String name = "restart-" + task.rank();
        Optional<JobUser> user = unlessRoot(settings.runAs().restartsAsRoot(), task.user());
        Path pidFile = kit.freshFile(task.workDirectory(), user, name + ".pid");
        Optional<RankNamespace> namespace = settings.namespaces() == NamespacePolicy.ALWAYS
                ? Optional.of(RankNamespace.create(kit, task.imageDirectory()))
                : Optional.empty();
        Path directory = namespace.isPresent() ? Path.of(".") : task.imageDirectory();
        Map<String, String> values = values(task.rank(), directory, pidFile.getParent());
        values.put("pidfile", pidFile.toString());
        List<String> command = new ArrayList<>(kit.launch(namespace.isPresent() ? Optional.empty() : user));
        if (namespace.isPresent()) {
            command.addAll(RankNamespace.enter(namespace.get().init(), task.imageDirectory()));
            command.addAll(kit.launch(user));
        }
        command.addAll(CommandTemplate.fill(settings.restart(), values));
        boolean writesPid = settings.restart().stream().anyMatch(word -> word.contains("{pidfile}"));
        Path log = pidFile.resolveSibling("restart.log");
        RestartSteps.Finder finder = writesPid
                ? new ByPidFile(task, namespace, pidFile, log)
                : new ByDescent(task, namespace.isPresent(), log);
        RestartSteps steps = new RestartSteps(task, kit, namespace, finder);
        return Restarts.start(name, command, user, task, kit, namespace, steps);
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

    /** The command says who the root is. */
    private final class ByPidFile implements RestartSteps.Finder {
        private final RestartTask task;
        private final Optional<RankNamespace> namespace;
        private final Path pidFile;
        private final Path log;

        ByPidFile(RestartTask task, Optional<RankNamespace> namespace, Path pidFile, Path log) {
            this.task = task;
            this.namespace = namespace;
            this.pidFile = pidFile;
            this.log = log;
        }

        @Override
        public boolean succeeded(ToolProcess tool) throws CheckpointException {
            Optional<Integer> exitCode = tool.exitCode();
            boolean named =
                    PidFiles.read(pidFile, task.user(), exitCode.isEmpty()).isPresent();
            if (exitCode.isPresent() && (exitCode.get() != 0 || !named)) {
                throw RestartSteps.failure(task, tool, log);
            }
            return named;
        }

        @Override
        public List<ProcessIdentity> restored(ToolProcess tool) throws CheckpointException {
            Optional<ProcessIdentity> root = root(tool);
            if (root.isEmpty()) {
                return List.of();
            }
            List<ProcessIdentity> rank = new ArrayList<>(kit.table().tree(root.get()));
            if (namespace.isPresent()) {
                List<ProcessIdentity> own = companions(tool);
                namespace.get().members(kit.table()).stream()
                        .filter(process -> !rank.contains(process) && !own.contains(process))
                        .forEach(rank::add);
            }
            return rank;
        }

        @Override
        public List<ProcessIdentity> companions(ToolProcess tool) throws CheckpointException {
            List<ProcessIdentity> rank = root(tool).map(kit.table()::tree).orElse(List.of());
            return tool.identity().map(kit.table()::tree).orElse(List.of()).stream()
                    .filter(process -> !rank.contains(process))
                    .toList();
        }

        private Optional<ProcessIdentity> root(ToolProcess tool) throws CheckpointException {
            int pid = PidFiles.read(pidFile, task.user(), false)
                    .orElseThrow(() -> new CheckpointException(
                            "rank " + task.rank() + ": " + pidFile + " has been emptied by the restart command"));
            Optional<ProcessIdentity> root = PidFiles.root(kit.table(), namespace, pid);
            if (root.isPresent() && root.get().startTimeTicks() < tool.startedNotBeforeTicks()) {
                throw new CheckpointException("rank " + task.rank() + ": the restart command names PID " + pid
                        + " as restored, but that process is older than the command. Remedy: correct the command");
            }
            return root;
        }
    }

    /** The command stays, and what descends from it is the rank; or the command has become the rank. */
    private final class ByDescent implements RestartSteps.Finder {
        private final RestartTask task;
        private final boolean inNamespace;
        private final Path log;

        ByDescent(RestartTask task, boolean inNamespace, Path log) {
            this.task = task;
            this.inNamespace = inNamespace;
            this.log = log;
        }

        @Override
        public boolean succeeded(ToolProcess tool) throws CheckpointException {
            if (tool.exitCode().isPresent()) {
                throw RestartSteps.failure(task, tool, log);
            }
            List<ProcessIdentity> rank = restored(tool);
            return !rank.isEmpty() && kit.table().whyNotHeld(rank).isEmpty();
        }

        @Override
        public List<ProcessIdentity> restored(ToolProcess tool) {
            List<ProcessIdentity> tree = tree(tool);
            return tree.subList(Math.min(tree.size(), own(tree)), tree.size());
        }

        @Override
        public List<ProcessIdentity> companions(ToolProcess tool) {
            List<ProcessIdentity> tree = tree(tool);
            return tree.subList(0, Math.min(tree.size(), own(tree)));
        }

        /** How many at the head of the tree are not the rank: nsenter, and a command that has children. */
        private int own(List<ProcessIdentity> tree) {
            int entering = inNamespace ? 1 : 0;
            return tree.size() > entering + 1 ? entering + 1 : entering;
        }

        private List<ProcessIdentity> tree(ToolProcess tool) {
            return tool.identity().map(kit.table()::tree).orElse(List.of());
        }
    }
}
