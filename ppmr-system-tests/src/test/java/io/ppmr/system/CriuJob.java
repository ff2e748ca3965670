package io.ppmr.system;

import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.CheckpointerSettings;
import io.ppmr.checkpoint.CheckpointerSettings.LandlockPolicy;
import io.ppmr.checkpoint.CheckpointerSettings.NamespacePolicy;
import io.ppmr.checkpoint.CheckpointerSettings.PagePolicy;
import io.ppmr.checkpoint.JobUser;
import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.checkpoint.SiteCommand;
import io.ppmr.migration.keep.Keeping;
import io.ppmr.migration.source.Cancellation;
import io.ppmr.migration.source.Job;
import io.ppmr.migration.source.JobHooks;
import io.ppmr.migration.source.MigrationOrder;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Patience;
import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;

/**
 * A job of one rank that is moved by real CRIU. Its user is root or an ordinary user. It has a folder of its own, which
 * is also its working directory. Its remaining processes are found by its working directory and ended.
 */
final class CriuJob implements AutoCloseable {
    private static final JobUser ROOT = new JobUser(0, 0);
    private static final Duration LIMIT = Patience.of(Duration.ofSeconds(60));

    private final Path directory;
    private final Process process;
    private final JobUser user;

    private CriuJob(Path directory, Process process, JobUser user) {
        this.directory = directory;
        this.process = process;
        this.user = user;
    }

    /** Starts one by a line of shell, which a shell in the folder becomes. */
    static CriuJob start(Path parent, String line) throws IOException {
        Path directory = Files.createDirectory(parent.resolve("job")).toRealPath();
        File nothing = new File("/dev/null");
        Process process = new ProcessBuilder("sh", "-c", "exec " + line)
                .directory(directory.toFile())
                .redirectInput(nothing)
                .redirectOutput(nothing)
                .redirectError(nothing)
                .start();
        return new CriuJob(directory, process, ROOT);
    }

    /** Starts one of an ordinary user, to whom its folder belongs. All folders above it must let that user pass. */
    static CriuJob startAs(JobUser user, Path parent, String line) throws Exception {
        Path directory = Files.createDirectory(parent.resolve("job")).toRealPath();
        Files.setAttribute(directory, "unix:uid", user.uid());
        Files.setAttribute(directory, "unix:gid", user.gid());
        File nothing = new File("/dev/null");
        Path launcher = Path.of(System.getProperty("ppmr.native.dir"), "ppmr-launch");
        Process process = new ProcessBuilder(
                        launcher.toString(),
                        "--uid",
                        Integer.toString(user.uid()),
                        "--gid",
                        Integer.toString(user.gid()),
                        "--",
                        "sh",
                        "-c",
                        "exec " + line)
                .directory(directory.toFile())
                .redirectInput(nothing)
                .redirectOutput(nothing)
                .redirectError(nothing)
                .start();
        return new CriuJob(directory, process, user);
    }

    /** Returns real CRIU with these further arguments for both of its commands. */
    static Checkpointer criu(String... arguments) {
        return criu(PagePolicy.AUTO, arguments);
    }

    /** Returns real CRIU with this policy for pages. */
    static Checkpointer criu(PagePolicy pages, String... arguments) {
        return create(settings(pages, arguments));
    }

    /** Returns real CRIU whose copies may run before they are whole. */
    static Checkpointer criuBehind() {
        return create(settings(PagePolicy.PRECOPIED).withFillBehind());
    }

    /** Returns real CRIU whose jobs may be connected to servers at these paths. */
    static Checkpointer criuBeside(List<String> externalSockets) {
        return create(settings(PagePolicy.AUTO).withExternalSockets(externalSockets));
    }

    /** Real CRIU, by which jobs are moved that may be in a sandbox. */
    static Checkpointer criuAllowingSandboxes() {
        return create(settings(PagePolicy.AUTO).withLandlock(LandlockPolicy.ALLOW));
    }

    private static Checkpointer create(CheckpointerSettings.Criu settings) {
        return settings.create("criu", new NativePrograms(Path.of(System.getProperty("ppmr.native.dir"))));
    }

    private static CheckpointerSettings.Criu settings(PagePolicy pages, String... arguments) {
        List<String> program = System.getenv()
                .getOrDefault("PPMR_CRIU", "criu")
                .strip()
                .lines()
                .toList();
        List<String> dump = List.of(arguments);
        List<String> restore =
                dump.stream().filter(word -> !word.equals("--shell-job")).toList();
        return new CheckpointerSettings.Criu(program, dump, restore, pages, false, NamespacePolicy.AUTO);
    }

    Path file(String name) {
        return directory.resolve(name);
    }

    /** Reads the file in which the job notes that it continues. */
    private String turns() throws IOException {
        Path turns = file("turns");
        return Files.exists(turns) ? Files.readString(turns) : "";
    }

    /** Waits until the job continues. */
    void requireTurns() throws Exception {
        for (int turn = 0; turn < 2; turn++) {
            String before = turns();
            Conditions.until(LIMIT, directory + " continues", () -> !turns().equals(before));
        }
    }

    MigrationReport migrate(ServicePair pair, Checkpointer criu) throws InterruptedException {
        return migrate(pair, criu, (int) process.pid());
    }

    /** Returns the PID of the root as it was started. */
    int pid() {
        return (int) process.pid();
    }

    /** Moves the job, or a copy of it, by the PID of its root, unless it is cancelled. */
    MigrationReport migrate(ServicePair pair, Checkpointer criu, int pid, String id, Cancellation cancellation)
            throws InterruptedException {
        Job job = new Job("job", user, criu, List.of(new Job.RankProcess(0, pid)));
        return pair.source().migrate(id, new MigrationOrder(job, List.of(), "a test"), cancellation, progress -> {});
    }

    /** Moves the job, which should be moved within this time. */
    MigrationReport migrateWithin(ServicePair pair, Checkpointer criu, Duration time) throws InterruptedException {
        Job job = new Job("job", user, criu, List.of(new Job.RankProcess(0, (int) process.pid())));
        MigrationOrder order = new MigrationOrder(
                job,
                List.of(),
                "a test",
                Keeping.KeepRequest.NONE,
                OptionalLong.of(System.nanoTime() + time.toNanos()));
        return pair.source().migrate("within", order, new Cancellation(), progress -> {});
    }

    /** Moves several ranks, by the PIDs of their roots. */
    static MigrationReport migrateRanks(ServicePair pair, Checkpointer criu, List<Integer> roots)
            throws InterruptedException {
        List<Job.RankProcess> ranks = new ArrayList<>();
        roots.forEach(pid -> ranks.add(new Job.RankProcess(ranks.size(), pid)));
        return pair.source().migrate(new Job("job", ROOT, criu, ranks), progress -> {});
    }

    /** Moves a copy of the job on, by the PID of its root. */
    MigrationReport migrate(ServicePair pair, Checkpointer criu, int pid) throws InterruptedException {
        return migrate(pair, criu, pid, JobHooks.NONE);
    }

    /** Moves the job with a suspend hook that is a line of shell, in which $PID is the root's. */
    MigrationReport migrateSuspended(ServicePair pair, Checkpointer criu, String line) throws InterruptedException {
        SiteCommand suspend = new SiteCommand(
                "suspend", List.of("sh", "-c", "PID=" + process.pid() + "; " + line), Optional.of(ROOT), LIMIT);
        JobHooks hooks = new JobHooks(Optional.of(suspend), Optional.empty(), Optional.empty());
        return migrate(pair, criu, (int) process.pid(), hooks);
    }

    private MigrationReport migrate(ServicePair pair, Checkpointer criu, int pid, JobHooks hooks)
            throws InterruptedException {
        Job job = new Job("job", user, criu, List.of(new Job.RankProcess(0, pid)), Map.of(), hooks, Map.of());
        return pair.source().migrate(job, progress -> {});
    }

    /** Finds what lives of the job, by the working directory. */
    private List<ProcessHandle> processes() {
        List<ProcessHandle> found = new ArrayList<>();
        ProcessHandle.allProcesses().filter(this::isOurs).forEach(found::add);
        return found;
    }

    /** Returns the PIDs of the job's processes, of originals and copies. */
    Set<Long> pids() {
        return processes().stream().map(ProcessHandle::pid).collect(Collectors.toCollection(TreeSet::new));
    }

    private boolean isOurs(ProcessHandle candidate) {
        try {
            return Files.readSymbolicLink(Path.of("/proc/" + candidate.pid() + "/cwd"))
                    .startsWith(directory);
        } catch (IOException gone) {
            return false;
        }
    }

    /** Ends it as an operator would, so that a job can remove its files outside of its folder. */
    @Override
    public void close() throws Exception {
        process.destroy();
        process.waitFor(2, TimeUnit.SECONDS);
        Conditions.until(LIMIT, "nothing is left of " + directory, () -> {
            List<ProcessHandle> left = processes();
            left.forEach(ProcessHandle::destroyForcibly);
            return left.isEmpty();
        });
    }
}
