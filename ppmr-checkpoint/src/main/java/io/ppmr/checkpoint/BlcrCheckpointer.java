package io.ppmr.checkpoint;

import io.ppmr.checkpoint.Checkpointer.Availability;
import io.ppmr.checkpoint.Checkpointer.CheckpointTask;
import io.ppmr.checkpoint.Checkpointer.RestartNeeds;
import io.ppmr.checkpoint.Checkpointer.RestartTask;
import io.ppmr.checkpoint.Checkpointer.RunAs;
import io.ppmr.checkpoint.CheckpointerSettings.NamespacePolicy;
import io.ppmr.os.Command;
import io.ppmr.os.KernelFeatures;
import io.ppmr.os.ProcessIdentity;
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
 * Berkeley Lab Checkpoint/Restart, by cr_checkpoint(1) and cr_restart(1). One context file a rank, written in the
 * process's own context front to back and read front to back once. docs/internals/blcr.md says how the tools behave.
 *
 * <p>{@code --noclobber} makes BLCR write under the final name; its default, a temporary name and a rename at the end,
 * would hide the image until it is finished. {@code cr_restart} stays as the parent of what it has restored and ends
 * the way that ends; but what was init's child when it was checkpointed is so again, and then {@code cr_restart} ends
 * with 0 at once. So its exit says nothing by itself: success is a line that {@code --run-on-success} prints into its
 * output file, with a number that no restored process knows. The restored processes are in the session that {@code
 * cr_restart} was started in ({@code --no-restore-sid}).
 */
record BlcrCheckpointer(String name, CheckpointerSettings.Blcr settings, ToolKit kit) implements Checkpointer {
    private static final Path MODULE = Path.of("/proc/checkpoint/ctrl");
    private static final String TEMPORARY_SUFFIX = ".tmp";

    /** The remedy for each error number that cr_checkpoint ends with. */
    private static final Map<Integer, String> CHECKPOINT_REMEDIES = Map.of(
            3,
            "the process ended before its checkpoint: see the job's own output",
            5,
            "the image could not be written: the source's log says why its filesystem took no more",
            52,
            "the process runs without BLCR's library: start the job by cr_run, or link it with -lcr",
            56,
            "a debugger or strace traces the process: detach it, and try again",
            17,
            "an image of that name is there already: find out what else writes into the rank's directory, and try"
                    + " again");

    /** The same for cr_restart, which ends with 255 where it cannot open the image. */
    private static final Map<Integer, String> RESTART_REMEDIES = Map.of(
            13,
            "the job's user may not open the image or a file that the job had open: see that the user may read it and"
                    + " pass every folder on its path",
            5,
            "the image ended too early or could not be read: the target's log says what did not come, or the copy is"
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
        for (String program : List.of(settings.checkpointProgram(), settings.restartProgram())) {
            if (ToolKit.find(program).isEmpty()
                    || kit.versions().of(List.of(program)).isEmpty()) {
                return Availability.lacking(
                        program + " is not installed", "install BLCR's programs and name them in the configuration");
            }
        }
        if (settings.needsKernelModule() && !Files.exists(MODULE)) {
            return Availability.lacking(
                    "BLCR's kernel module is not loaded (no " + MODULE + ") in kernel "
                            + System.getProperty("os.version"),
                    "modprobe blcr; it builds for kernels up to 3.17 only: on newer ones use criu or a command");
        }
        String version =
                kit.versions().of(List.of(settings.checkpointProgram())).orElse("no version");
        return Availability.present(version);
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

    /** A program in place of cr_checkpoint may leave it its default: {@code .NAME.tmp}, and a rename at the end. */
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

    /** BLCR writes a stopped process, too, and {@code --stop} stops it again. Recorded with the real one. */
    @Override
    public boolean checkpointsHeldRanks() {
        return true;
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
    public void requireReachable(Map<Integer, ProcessIdentity> roots) throws CheckpointException {
        RankPlace.ofAll(roots, kit.table().snapshot());
    }

    @Override
    public RankCommand checkpoint(CheckpointTask task) throws CheckpointException {
        String name = "blcr-checkpoint-" + task.rank();
        Path noLog = task.workDirectory().resolve(name + ".log");
        CheckpointSteps steps = new CheckpointSteps(task, kit, noLog, CHECKPOINT_REMEDIES);
        List<String> command =
                kit.launchFor(task, kit.launch(Optional.of(task.user())), List.of(settings.checkpointProgram()));
        command.addAll(Command.words(
                "%s --tree --file %s --noclobber --stop --time %s %s",
                settings.checkpointProgram(),
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
                List.of(settings.restartProgram()));
        // In a namespace the image directory is the working directory: the mount may not be visible in there.
        Path directory = namespace.isPresent() ? Path.of(".") : task.imageDirectory();
        Path file = directory.resolve(fileName(task.rank()));
        command.addAll(Command.words(
                "%s --file %s --stop --no-restore-pid --no-restore-pgid --no-restore-sid --run-on-success=%s",
                settings.restartProgram(), file, "echo restored " + nonce));
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
            // Asked first: what it has written before its end is in the output then.
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
            // Asked once: a restarter that has restored an orphan ends at about this time.
            List<ProcessIdentity> tree = tool.tree(now);
            int own = own(tree);
            return tree.size() > own ? tree.subList(own, tree.size()) : orphans(tool, tree, now);
        }

        /**
         * Returns the processes that init has adopted, and their descendants: in the session, or the namespace, and not
         * the tool's.
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

        /** The restarter, after nsenter where that was needed: the first of the tool's tree. */
        @Override
        List<ProcessIdentity> helperProcesses(ToolProcess tool, ProcessSnapshot now) {
            List<ProcessIdentity> tree = tool.tree(now);
            return tree.subList(0, own(tree));
        }

        /** Counts the processes at the head of the tree that are not the rank: nsenter and the restarter. */
        private int own(List<ProcessIdentity> tree) {
            return Math.min(tree.size(), namespace.isPresent() ? 2 : 1);
        }
    }
}
