package io.ppmr.checkpoint;

import io.ppmr.checkpoint.Checkpointer.Availability;
import io.ppmr.checkpoint.Checkpointer.CheckpointTask;
import io.ppmr.checkpoint.Checkpointer.RestartNeeds;
import io.ppmr.checkpoint.Checkpointer.RestartTask;
import io.ppmr.checkpoint.Checkpointer.RunAs;
import io.ppmr.checkpoint.CheckpointerSettings.NamespacePolicy;
import io.ppmr.os.Command;
import io.ppmr.os.KernelFeatures;
import io.ppmr.os.KernelFeatures.Feature;
import io.ppmr.os.ProcessIdentity;
import io.ppmr.protocol.data.ReadingMode;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Checkpoint/Restore In Userspace, by criu(8). About a dozen image files a rank, read in any order; inventory.img is
 * written last and opened first.
 *
 * <p>A restored process has its old PIDs, so each rank is restored in a PID namespace of its own, whose init outlives
 * this service. A process that lives in such a namespace is dumped from inside it: CRIU does not dump a PID namespace
 * without its init. The image directory is entered by {@code nsenter --wd}, which opens it before the namespaces are
 * changed, so the node's mount need not be visible in there.
 */
record CriuCheckpointer(String name, CheckpointerSettings.Criu settings, ToolKit kit) implements Checkpointer {
    private static final int CAP_SYS_ADMIN = 21;
    private static final int CAP_SYS_RESOURCE = 24;
    private static final Duration CHECK_LIMIT = Duration.ofSeconds(20);

    /** What CRIU 4.1 logs, and then ignores, when shared memory's pages end before their time. */
    private static final String UNREAD_PAGES = "Can't read mapping page";

    private static final Pattern VERSION = Pattern.compile("(\\d+)\\.(\\d+)");

    @Override
    public Availability probe() {
        Optional<String> missing = kit.programs().missing();
        if (missing.isPresent()) {
            return Availability.lacking(
                    missing.get(), "build the project, or set " + NativePrograms.DIRECTORY_PROPERTY);
        }
        KernelFeatures own = KernelFeatures.here();
        if (!own.has(Feature.NSPID)) {
            return Availability.lacking(
                    "CRIU cannot move ranks here, whose PIDs it restores in PID namespaces: "
                            + own.lacks(Feature.NSPID),
                    "use blcr or a command on this node");
        }
        String program = settings.program().get(0);
        if (ToolKit.find(program).isEmpty()) {
            return Availability.lacking(
                    program + " is not installed",
                    "run install-criu.sh and put the words it prints into the configuration");
        }
        if (ToolKit.find("nsenter").isEmpty()) {
            return Availability.lacking("nsenter is not installed", "install the package util-linux");
        }
        Optional<String> version = kit.versions().of(settings.program());
        if (version.isEmpty()) {
            return Availability.lacking(
                    String.join(" ", settings.program()) + " does not start", "start it by hand to see why");
        }
        String kernel = System.getProperty("os.version");
        if (compare(version.get(), 4, 0) < 0 && compare(kernel, 6, 13) >= 0) {
            return Availability.lacking(
                    "CRIU " + version.get() + " does not restore on kernel " + kernel,
                    "use CRIU 4 or later: run install-criu.sh and put the words it prints into the configuration");
        }
        if (!kit.starter().givesCapability(CAP_SYS_ADMIN)) {
            return Availability.lacking("this service is not root", "run it as root: namespaces and CRIU need that");
        }
        Optional<String> defect = selfCheck();
        if (defect.isPresent()) {
            return Availability.lacking(
                    "criu check fails: " + defect.get(), "set what it names right (in a network namespace: lo up)");
        }
        String limit = kit.starter().givesCapability(CAP_SYS_RESOURCE)
                ? ""
                : "; without CAP_SYS_RESOURCE it can only checkpoint processes of root";
        return Availability.present("CRIU " + version.get() + " on kernel " + kernel + limit);
    }

    /** What {@code criu check} has to say against this kernel and these namespaces; about 50 ms. */
    private Optional<String> selfCheck() {
        List<String> command = new ArrayList<>(settings.program());
        command.add("check");
        try {
            Command.Result result = kit.starter().run(command, CHECK_LIMIT);
            return result.exitCode() == 0
                    ? Optional.empty()
                    : Optional.of(result.output().replaceAll("\\R", " | "));
        } catch (CheckpointException e) {
            return Optional.of(e.getMessage());
        }
    }

    /** Compares the first two numbers in a version with the given ones; a text without numbers counts as newer. */
    static int compare(String version, int major, int minor) {
        Matcher matcher = VERSION.matcher(version);
        if (!matcher.find()) {
            return 1;
        }
        int byMajor = Integer.compare(Integer.parseInt(matcher.group(1)), major);
        return byMajor != 0 ? byMajor : Integer.compare(Integer.parseInt(matcher.group(2)), minor);
    }

    @Override
    public ReadingMode readingMode() {
        return ReadingMode.RETAINED;
    }

    @Override
    public List<String> announcedNames(int rank) {
        return List.of("inventory.img");
    }

    @Override
    public List<String> completionNames(int rank) {
        return List.of("inventory.img");
    }

    @Override
    public Optional<String> finalNameOf(String temporaryName) {
        return Optional.empty();
    }

    @Override
    public RestartNeeds restartNeeds() {
        return new RestartNeeds(true, settings.namespaces() == NamespacePolicy.NEVER);
    }

    @Override
    public RunAs runAs() {
        return settings.runAs();
    }

    @Override
    public boolean checkpointsHeldRanks() {
        return true;
    }

    /** No: criu runs beside the process and writes every file itself; a write that fails ends the dump, never that. */
    @Override
    public boolean writesFromWithin() {
        return false;
    }

    @Override
    public RankCommand checkpoint(CheckpointTask task) throws CheckpointException {
        String name = "criu-dump-" + task.rank();
        Path log = kit.freshFile(task.workDirectory(), Optional.empty(), name + ".log");
        CheckpointSteps steps = new CheckpointSteps(task, kit, log, Map.of());
        if (task.user().uid() != 0 && !kit.starter().givesCapability(CAP_SYS_RESOURCE)) {
            throw new CheckpointException("rank " + task.rank() + ": CRIU cannot read the resource limits of user "
                    + task.user().uid() + "'s processes (prlimit(2)), since this service has no CAP_SYS_RESOURCE."
                    + " Remedy: give it that capability");
        }
        List<String> command = kit.launchFor(task, Optional.empty());
        command.addAll(settings.program());
        command.addAll(List.of(
                "dump",
                "--tree",
                Integer.toString(kit.pidFor(task)),
                "--images-dir",
                kit.livesElsewhere(task) ? "." : task.imageDirectory().toString(),
                "--work-dir",
                log.getParent().toString(),
                "--log-file",
                log.toString(),
                "--leave-stopped",
                "--manage-cgroups=ignore"));
        if (!kit.table().leadsSession(task.root())) {
            command.add("--shell-job");
        }
        command.addAll(settings.extraDumpArguments());
        return steps.start(name, command, Optional.empty());
    }

    @Override
    public RankCommand restart(RestartTask task) throws CheckpointException {
        String name = "criu-restore-" + task.rank();
        Path log = kit.freshFile(task.workDirectory(), Optional.empty(), name + ".log");
        Path pidFile = kit.freshFile(task.workDirectory(), Optional.empty(), name + ".pid");
        Optional<RankNamespace> namespace = settings.namespaces() == NamespacePolicy.NEVER
                ? Optional.empty()
                : Optional.of(RankNamespace.create(kit, task.imageDirectory()));
        List<String> command = kit.launch(namespace.map(RankNamespace::init), task.imageDirectory(), Optional.empty());
        command.addAll(settings.program());
        command.addAll(List.of(
                "restore",
                "--images-dir",
                namespace.isPresent() ? "." : task.imageDirectory().toString(),
                "--work-dir",
                log.getParent().toString(),
                "--log-file",
                log.toString(),
                "--pidfile",
                pidFile.toString(),
                "--restore-detached",
                "--leave-stopped",
                "--shell-job",
                "--manage-cgroups=ignore"));
        command.addAll(settings.extraRestoreArguments());
        return new Steps(task, kit, namespace, log, pidFile).start(name, command, Optional.empty());
    }

    private static final class Steps extends RestartSteps {
        private final Path log;
        private final Path pidFile;

        Steps(RestartTask task, ToolKit kit, Optional<RankNamespace> namespace, Path log, Path pidFile) {
            super(task, kit, namespace);
            this.log = log;
            this.pidFile = pidFile;
        }

        @Override
        boolean reportsSuccess(ToolProcess tool) throws CheckpointException {
            Optional<Integer> exitCode = tool.exitCode();
            if (exitCode.isPresent() && exitCode.get() != 0) {
                throw failure(tool, log, Map.of());
            }
            if (exitCode.isPresent() && ToolProcess.contains(log, UNREAD_PAGES)) {
                throw new CheckpointException("rank " + task.rank()
                        + " was restarted with pages that CRIU could not read,"
                        + " though it reports success; its log is " + log + ". Remedy: the image is not whole");
            }
            return exitCode.isPresent();
        }

        @Override
        List<ProcessIdentity> restored(ToolProcess tool) throws CheckpointException {
            int pid = readPid(pidFile, task.user(), false)
                    .orElseThrow(() ->
                            new CheckpointException("rank " + task.rank() + ": CRIU has left no PID in " + pidFile));
            return rank(root(pid), List.of());
        }

        @Override
        List<ProcessIdentity> companions(ToolProcess tool) {
            return List.of();
        }
    }
}
