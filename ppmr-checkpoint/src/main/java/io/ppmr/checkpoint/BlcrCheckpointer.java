package io.ppmr.checkpoint;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.UUID;

/**
 * Berkeley Lab Checkpoint/Restart, by cr_checkpoint(1) and cr_restart(1). One context file a rank, written in the
 * process's own context front to back and read front to back once.
 *
 * <p>{@code --noclobber} makes BLCR write under the final name; its default, a temporary name and a rename at the end,
 * would hide the image until it is finished. {@code cr_restart} stays as the parent of what it has restored and ends
 * the way that ends, so its exit cannot be waited for: success is a line that {@code --run-on-success} prints into its
 * output file, with a number that no restored process knows.
 */
final class BlcrCheckpointer implements Checkpointer {
    private static final Path MODULE = Path.of("/proc/checkpoint/ctrl");

    private final CheckpointerSettings.Blcr settings;
    private final ToolKit kit;

    BlcrCheckpointer(CheckpointerSettings.Blcr settings, ToolKit kit) {
        this.settings = settings;
        this.kit = kit;
    }

    @Override
    public String name() {
        return "blcr";
    }

    @Override
    public Availability probe() {
        Optional<String> missing = kit.programs().missing();
        if (missing.isPresent()) {
            return new Availability(
                    false, missing.get(), "build the project, or set " + NativePrograms.DIRECTORY_PROPERTY);
        }
        for (String program : List.of(settings.checkpointProgram(), settings.restartProgram())) {
            if (ToolKit.find(program).isEmpty()
                    || kit.versions().of(List.of(program)).isEmpty()) {
                return new Availability(
                        false,
                        program + " is not installed",
                        "install BLCR's programs and name them in the configuration");
            }
        }
        if (settings.needsKernelModule() && !Files.exists(MODULE)) {
            return new Availability(
                    false,
                    "BLCR's kernel module is not loaded (no " + MODULE + ") in kernel "
                            + System.getProperty("os.version"),
                    "modprobe blcr; it builds for kernels up to 3.17 only: on newer ones use criu or a command");
        }
        String version =
                kit.versions().of(List.of(settings.checkpointProgram())).orElse("no version");
        return new Availability(true, version, "");
    }

    @Override
    public ReadingMode readingMode() {
        return ReadingMode.STREAMED;
    }

    @Override
    public List<String> announcedNames(int rank) {
        return List.of(fileName(rank));
    }

    @Override
    public List<String> completionNames(int rank) {
        return List.of();
    }

    @Override
    public Optional<String> finalNameOf(String temporaryName) {
        return Optional.empty();
    }

    @Override
    public RestartNeeds restartNeeds() {
        return new RestartNeeds(true, false);
    }

    @Override
    public RunAs runAs() {
        return settings.runAs();
    }

    /** A stopped process does not take the signal by which BLCR asks it for its checkpoint. */
    @Override
    public boolean checkpointsHeldRanks() {
        return false;
    }

    /**
     * No: the image is written in the process's own context, but by BLCR's kernel module. A write that fails ends the
     * request there; the process never sees the error and runs on, and {@code cr_checkpoint} reports the failure.
     * Taking the writes instead would only keep the process from computing until the whole image is written, and leave
     * it stopped.
     */
    @Override
    public boolean writesFromWithin() {
        return false;
    }

    @Override
    public RankCommand checkpoint(CheckpointTask task) throws CheckpointException {
        List<ProcessIdentity> originals = kit.requireTree(task);
        List<String> command = new ArrayList<>(kit.launchFor(task, Optional.of(task.user())));
        command.add(settings.checkpointProgram());
        command.addAll(List.of(
                "--tree",
                "--file",
                task.imageDirectory().resolve(fileName(task.rank())).toString(),
                "--noclobber",
                "--stop",
                "--time",
                Long.toString(Math.max(1, task.deadline().toSeconds())),
                Integer.toString(kit.pidFor(task))));
        String name = "blcr-checkpoint-" + task.rank();
        Path noLog = task.workDirectory().resolve(name + ".log");
        // Before the tool starts: what it stops at once would count as stopped before, and stay so when it fails.
        CheckpointSteps steps = new CheckpointSteps(task, kit, originals, noLog);
        ToolProcess tool = ToolProcess.start(name, command, task.workDirectory(), Optional.of(task.user()), kit);
        return RunningCommand.watch(
                "checkpoint of rank " + task.rank(), tool, Optional.empty(), steps, task.deadline(), kit);
    }

    @Override
    public RankCommand restart(RestartTask task) throws CheckpointException {
        String nonce = UUID.randomUUID().toString();
        Optional<RankNamespace> namespace = settings.namespaces() == NamespacePolicy.ALWAYS
                ? Optional.of(RankNamespace.create(kit, task.imageDirectory()))
                : Optional.empty();
        List<String> command =
                new ArrayList<>(kit.launch(namespace.isPresent() ? Optional.empty() : Optional.of(task.user())));
        if (namespace.isPresent()) {
            command.addAll(RankNamespace.enter(namespace.get().init(), task.imageDirectory()));
            command.addAll(kit.launch(Optional.of(task.user())));
        }
        // In a namespace the image directory is the working directory: the mount may not be visible in there.
        Path directory = namespace.isPresent() ? Path.of(".") : task.imageDirectory();
        Path file = directory.resolve(fileName(task.rank()));
        command.addAll(List.of(
                settings.restartProgram(),
                "--file",
                file.toString(),
                "--stop",
                "--no-restore-pid",
                "--run-on-success=echo restored " + nonce,
                "--run-on-failure=echo failed " + nonce));
        RestartSteps steps = new RestartSteps(task, kit, namespace, new Finder(task, nonce, namespace.isPresent()));
        String name = "blcr-restart-" + task.rank();
        return Restarts.start(name, command, Optional.of(task.user()), task, kit, namespace, steps);
    }

    private static String fileName(int rank) {
        return "context." + rank;
    }

    private final class Finder implements RestartSteps.Finder {
        private final RestartTask task;
        private final String nonce;
        private final boolean inNamespace;

        Finder(RestartTask task, String nonce, boolean inNamespace) {
            this.task = task;
            this.nonce = nonce;
            this.inNamespace = inNamespace;
        }

        @Override
        public boolean succeeded(ToolProcess tool) throws CheckpointException {
            boolean ended = tool.exitCode().isPresent();
            String output = tool.output();
            // A restored process that ends at once takes cr_restart with it; then nothing is left to hold.
            if (ended || output.contains("failed " + nonce)) {
                throw RestartSteps.failure(task, tool, task.workDirectory().resolve("no-log"));
            }
            return output.contains("restored " + nonce);
        }

        @Override
        public List<ProcessIdentity> restored(ToolProcess tool) {
            List<ProcessIdentity> tree = tree(tool);
            int own = companions(tool).size();
            return tree.size() <= own ? List.of() : tree.subList(own, tree.size());
        }

        /** The restarter, after nsenter where that was needed: the first of the tool's tree. */
        @Override
        public List<ProcessIdentity> companions(ToolProcess tool) {
            List<ProcessIdentity> tree = tree(tool);
            return tree.subList(0, Math.min(tree.size(), inNamespace ? 2 : 1));
        }

        private List<ProcessIdentity> tree(ToolProcess tool) {
            return tool.identity().map(kit.table()::tree).orElse(List.of());
        }
    }
}
