package io.ppmr.system;

import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.CheckpointerSettings;
import io.ppmr.checkpoint.JobUser;
import io.ppmr.checkpoint.NamespacePolicy;
import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.checkpoint.ProcessTable;
import io.ppmr.checkpoint.ReadingMode;
import io.ppmr.source.Job;
import io.ppmr.source.MigrationReport;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/**
 * A job of real processes, whose checkpointer and restart are the program image-replay: each makes the system calls that a
 * script lists. The processes are stopped, ended and set going as any others; what is replayed is the I/O.
 */
final class ReplayJob implements AutoCloseable {
    /** The ordinary user as whom the jobs of these tests run. */
    static final JobUser USER = new JobUser(20001, 20001);

    private static final Path HOME = Path.of(System.getProperty("ppmr.home"));
    private static final Path REPLAY = HOME.resolve("ppmr-system-tests/target/native-test/image-replay");
    private static final Path NATIVE = HOME.resolve("ppmr-checkpoint/target/native");

    private final Path directory;
    private final List<Process> originals = new ArrayList<>();
    private final List<Integer> copies = new ArrayList<>();
    private final ProcessTable processes = new ProcessTable();
    private ReadingMode readingMode = ReadingMode.STREAMED;
    private List<String> announced = List.of("image");
    private List<String> completion = List.of();
    private Map<String, String> temporary = Map.of();

    ReplayJob(Path directory) throws IOException {
        this.directory = Files.createDirectory(directory.resolve("job"));
        Files.setPosixFilePermissions(directory, PosixFilePermissions.fromString("rwxr-xr-x"));
        Files.setPosixFilePermissions(this.directory, PosixFilePermissions.fromString("rwxrwxrwx"));
    }

    ReplayJob retained() {
        readingMode = ReadingMode.RETAINED;
        return this;
    }

    ReplayJob announces(String... names) {
        announced = List.of(names);
        return this;
    }

    ReplayJob completes(String... names) {
        completion = List.of(names);
        return this;
    }

    ReplayJob temporary(String suffix, String becomes) {
        temporary = Map.of(suffix, becomes);
        return this;
    }

    /** Adds a rank: the calls of its checkpointer, which stops the process in the end, and those of its restart. */
    ReplayJob rank(List<String> checkpoint, List<String> restart) throws IOException {
        int rank = originals.size();
        write("checkpoint-" + rank, checkpoint, "stop");
        write("restart-" + rank, restart, "spawn");
        originals.add(new ProcessBuilder(
                        "setpriv",
                        "--reuid",
                        String.valueOf(USER.uid()),
                        "--regid",
                        String.valueOf(USER.gid()),
                        "--clear-groups",
                        "sleep",
                        "600")
                .start());
        return this;
    }

    private void write(String name, List<String> calls, String last) throws IOException {
        List<String> lines = new ArrayList<>(calls);
        lines.add(last);
        Path script = directory.resolve(name);
        Files.write(script, lines);
    }

    /** A file outside the mounts, for "touch" and "await" in scripts. */
    Path outside(String name) {
        return directory.resolve(name);
    }

    Checkpointer checkpointer() {
        return new CheckpointerSettings.Command(
                        List.of(
                                REPLAY.toString(),
                                "--dir",
                                "{dir}",
                                "--pid",
                                "{pid}",
                                directory + "/checkpoint-{rank}"),
                        List.of(
                                REPLAY.toString(),
                                "--dir",
                                "{dir}",
                                "--pidfile",
                                "{pidfile}",
                                directory + "/restart-{rank}"),
                        readingMode,
                        "image",
                        announced,
                        completion,
                        temporary,
                        true,
                        true,
                        NamespacePolicy.NEVER)
                .create(new NativePrograms(NATIVE));
    }

    /** Moves the job, and remembers the copies so that they are ended with the test. */
    MigrationReport migrate(ServicePair pair) throws InterruptedException {
        List<Job.RankProcess> ranks = new ArrayList<>();
        for (int rank = 0; rank < originals.size(); rank++) {
            ranks.add(new Job.RankProcess(rank, (int) originals.get(rank).pid()));
        }
        MigrationReport report = pair.source().migrate(new Job("replay", USER, checkpointer(), ranks), progress -> {});
        report.ranks().forEach(rank -> copies.addAll(rank.pids()));
        return report;
    }

    /** Whether every original lives and runs. */
    boolean originalsRun() {
        return originals.stream().allMatch(original -> processes
                .find((int) original.pid())
                .map(processes::isRunning)
                .orElse(false));
    }

    boolean originalsAreGone() throws InterruptedException {
        for (Process original : originals) {
            if (!original.waitFor(10, TimeUnit.SECONDS)) {
                return false;
            }
        }
        return true;
    }

    /** Whether every copy lives and runs. */
    boolean copiesRun() {
        return copies.size() == originals.size()
                && copies.stream()
                        .allMatch(pid ->
                                processes.find(pid).map(processes::isRunning).orElse(false));
    }

    @Override
    public void close() {
        for (int copy : copies) {
            ProcessHandle.of(copy).ifPresent(ProcessHandle::destroyForcibly);
        }
        originals.forEach(Process::destroyForcibly);
    }
}
