package io.ppmr.checkpoint;

import io.ppmr.checkpoint.Checkpointer.Availability;
import io.ppmr.checkpoint.Checkpointer.CheckpointTask;
import io.ppmr.checkpoint.Checkpointer.RestartNeeds;
import io.ppmr.checkpoint.Checkpointer.RestartTask;
import io.ppmr.checkpoint.Checkpointer.RunAs;
import io.ppmr.checkpoint.CheckpointerSettings.NamespacePolicy;
import io.ppmr.linux.Command;
import io.ppmr.linux.KernelFeatures;
import io.ppmr.linux.ProcessIdentity;
import io.ppmr.protocol.data.ReadingMode;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;
import java.util.stream.Collectors;

/**
 * Berkeley Lab Checkpoint/Restart, by cr_checkpoint(1) and cr_restart(1). It writes one context file for each rank,
 * front to back and in the process's own context. The restart reads the file once, front to back.
 * docs/internals/blcr.md describes the tools' behaviour.
 *
 * <p>{@code --noclobber} makes BLCR write under the final name. Its default, a temporary name and a rename at the end,
 * would hide the image until it is finished. {@code cr_restart} stays as the parent of the restored process and ends
 * when that ends. However, a process that was init's child at its checkpoint is so again, and then {@code cr_restart}
 * ends with 0 at once. Therefore its exit proves nothing. Success is a line that {@code --run-on-success} prints into
 * its output file, with a number that no restored process knows. The restored processes are in the session that
 * {@code cr_restart} was started in ({@code --no-restore-sid}).
 */
record BlcrCheckpointer(String name, CheckpointerSettings.Blcr settings, ToolKit kit) implements Checkpointer {
    private static final Path MODULE = Path.of("/proc/checkpoint/ctrl");
    private static final String TEMPORARY_SUFFIX = ".tmp";

    /** The remedy for each error number that cr_checkpoint ends with. */
    private static final Map<Integer, String> CHECKPOINT_REMEDIES = Map.of(
            3,
            "the process ended before its checkpoint: see the job's own output",
            5,
            "the image could not be written: the source's log shows why its filesystem accepted no more",
            52,
            "the process runs without BLCR's library: start the job by cr_run, or link it with -lcr",
            56,
            "a debugger or strace traces the process: detach it, and try again",
            17,
            "an image of that name exists already: find out which other process writes into the rank's directory, and"
                    + " try again");

    /** The remedies for cr_restart, which ends with 255 if it cannot open the image. */
    private static final Map<Integer, String> RESTART_REMEDIES = Map.of(
            13,
            "the job's user may not open the image or a file that the job had open: see that the user may read it and"
                    + " pass every folder on its path",
            5,
            "the image ended too early or could not be read: the target's log shows the missing bytes, or the copy is"
                    + " damaged",
            255,
            "the image could not be opened: see that it is there, and that the job's user may pass every folder on"
                    + " its path");

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
        for (String program :
                List.of(settings.keys().checkpointProgram(), settings.keys().restartProgram())) {
            if (ToolKit.find(program).isEmpty()
                    || kit.versions().of(List.of(program)).isEmpty()) {
                return Availability.lacking(
                        program + " is not installed", "install BLCR's programs and name them in the configuration");
            }
        }
        if (settings.keys().kernelModule() && !Files.exists(MODULE)) {
            return Availability.lacking(
                    "BLCR's kernel module is not loaded (no " + MODULE + ") in kernel "
                            + System.getProperty("os.version"),
                    "modprobe blcr; it builds for kernels up to 3.17 only: on newer ones use criu or a command");
        }
        String version =
                kit.versions().of(List.of(settings.keys().checkpointProgram())).orElse("no version");
        return Availability.present(version);
    }

    @Override
    public ReadingMode readingMode() {
        return ReadingMode.STREAMED;
    }

    @Override
    public List<String> expectedNames(int rank) {
        return List.of(fileName(rank));
    }

    @Override
    public List<String> completionNames(int rank) {
        return List.of();
    }

    /**
     * Returns the final name of a temporary one. A replacement for cr_checkpoint may leave its default:
     * {@code .NAME.tmp}, and a rename at the end.
     */
    @Override
    public Optional<String> finalNameOf(String temporaryName) {
        boolean temporary = temporaryName.startsWith(".")
                && temporaryName.endsWith(TEMPORARY_SUFFIX)
                && temporaryName.length() > 1 + TEMPORARY_SUFFIX.length();
        return temporary
                ? Optional.of(temporaryName.substring(1, temporaryName.length() - TEMPORARY_SUFFIX.length()))
                : Optional.empty();
    }

    @Override
    public RestartNeeds restartNeeds() {
        return new RestartNeeds(true, false);
    }

    @Override
    public RunAs runAs() {
        return settings.runAs();
    }

    /**
     * Returns true. BLCR writes a stopped process, too, and {@code --stop} stops it again. The tests have recordings of
     * the real tool.
     */
    @Override
    public boolean checkpointsHeldRanks() {
        return true;
    }

    /**
     * Returns false. The image is written in the process's own context, but by BLCR's kernel module. A failed write
     * ends the request there. The process never gets the error and continues, and {@code cr_checkpoint} reports the
     * failure. Accepting the writes instead would only keep the process from computing until the whole image is
     * written, and leave it stopped.
     */
    @Override
    public boolean writesInProcess() {
        return false;
    }

    @Override
    public void requireReachable(Map<Integer, ProcessIdentity> roots) throws CheckpointException {
        RankPlace.ofAll(roots, kit.table().snapshot());
    }

    @Override
    public RankCommand checkpoint(CheckpointTask task) throws CheckpointException {
        String name = "blcr-checkpoint-" + task.rank();
        Path noLog = task.workDirectory().resolve(name + ".log");
        CheckpointSteps steps = new CheckpointSteps(task, kit, noLog, CHECKPOINT_REMEDIES);
        List<String> command = kit.launchFor(
                task,
                kit.launch(Optional.of(task.user())),
                List.of(settings.keys().checkpointProgram()));
        command.addAll(Command.words(
                "%s --tree --file %s --noclobber --stop --time %s %s",
                settings.keys().checkpointProgram(),
                task.imageDirectory().resolve(fileName(task.rank())),
                Math.max(1, task.deadline().toSeconds()),
                kit.pidFor(task)));
        return steps.start(name, command, Optional.of(task.user()));
    }

    @Override
    public RankCommand restart(RestartTask task) throws CheckpointException {
        String nonce = UUID.randomUUID().toString();
        Optional<RankNamespace.Planned> namespace = settings.namespaces() == NamespacePolicy.ALWAYS
                ? Optional.of(RankNamespace.Planned.of(kit, task, "blcr-restart-" + task.rank()))
                : Optional.empty();
        List<String> command = kit.launchInNew(
                namespace,
                task.imageDirectory(),
                kit.launch(Optional.of(task.user())),
                List.of(settings.keys().restartProgram()));
        // In a namespace the image directory is the working directory, because the mount may not be visible inside.
        Path directory = namespace.isPresent() ? Path.of(".") : task.imageDirectory();
        Path file = directory.resolve(fileName(task.rank()));
        command.addAll(Command.words(
                "%s --file %s --stop --no-restore-pid --no-restore-pgid --no-restore-sid --run-on-success=%s",
                settings.keys().restartProgram(), file, "echo restored " + nonce));
        return new Steps(task, kit, nonce, namespace)
                .start("blcr-restart-" + task.rank(), command, Optional.of(task.user()));
    }

    private static String fileName(int rank) {
        return "context." + rank;
    }

    private static final class Steps extends RestartSteps {
        private final String nonce;

        Steps(RestartTask task, ToolKit kit, String nonce, Optional<RankNamespace.Planned> namespace) {
            super(task, kit, namespace);
            this.nonce = nonce;
        }

        @Override
        boolean reportsSuccess(ToolProcess tool) throws CheckpointException {
            // The exit code is read first, so that the output contains all that was written before the end.
            Optional<Integer> exitCode = tool.exitCode();
            String output = tool.output();
            boolean restored = output.contains("restored " + nonce);
            if (exitCode.map(code -> code != 0 || !restored).orElse(false)) {
                throw failure(tool, task.workDirectory().resolve("no-log"), RESTART_REMEDIES);
            }
            return restored;
        }

        @Override
        List<ProcessIdentity> restored(ToolProcess tool, ProcessSnapshot now) {
            // The tree is read once, because a restarter that has restored an orphan ends at about this time.
            List<ProcessIdentity> tree = tool.tree(now);
            int own = own(tree);
            return tree.size() > own ? tree.subList(own, tree.size()) : orphans(tool, tree, now);
        }

        /**
         * Returns the processes that init has adopted, and their descendants. They are in the session or the namespace,
         * and do not belong to the tool.
         */
        private List<ProcessIdentity> orphans(ToolProcess tool, List<ProcessIdentity> tools, ProcessSnapshot now) {
            List<ProcessIdentity> others =
                    new ArrayList<>(namespace.map(own -> own.members(now)).orElseGet(() -> tool.members(now)));
            others.removeAll(tools);
            Set<Integer> pids = others.stream().map(ProcessIdentity::pid).collect(Collectors.toSet());
            Optional<ProcessIdentity> root = others.stream()
                    .filter(process -> !pids.contains(kit.table().parent(process)))
                    .min(Comparator.comparingLong(ProcessIdentity::startTimeTicks)
                            .thenComparingInt(ProcessIdentity::pid));
            if (root.isEmpty()) {
                return List.of();
            }
            others.remove(root.get());
            others.add(0, root.get());
            return kit.table().inOrderOfBirth(others);
        }

        /** Returns the restarter, which follows nsenter if there is one: the first of the tool's tree. */
        @Override
        List<ProcessIdentity> helperProcesses(ToolProcess tool, ProcessSnapshot now) {
            List<ProcessIdentity> tree = tool.tree(now);
            return tree.subList(0, own(tree));
        }

        /** Counts the processes at the head of the tree that do not belong to the rank: nsenter and the restarter. */
        private int own(List<ProcessIdentity> tree) {
            return Math.min(tree.size(), namespace.isPresent() ? 2 : 1);
        }
    }
}
