package io.ppmr.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.Checkpointer.CheckpointTask;
import io.ppmr.checkpoint.Checkpointer.RestartTask;
import io.ppmr.linux.Command;
import io.ppmr.linux.ProcessIdentity;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;
import org.junit.jupiter.api.Assumptions;

/**
 * A directory with copies of all programs, and real jobs that run from it as an ordinary user. Processes from this
 * directory are identified by it, so that close() kills all of them, and a test can list the remaining ones.
 */
final class JobFixture implements AutoCloseable {
    static final JobUser USER = new JobUser(41234, 41234);
    static final Duration LIMIT = Duration.ofSeconds(60L * Integer.getInteger("ppmr.patience", 1));

    final Path base;
    final Path bin;
    final Path jobs;
    final JobUser user;
    final NativePrograms programs;
    final ProcessTable table = new ProcessTable();
    final SignalSender signals;

    JobFixture() throws IOException {
        this.user = USER;
        Assumptions.assumeTrue(
                Files.getAttribute(Path.of("/proc/self"), "unix:uid").equals(0),
                "needs root: jobs run as an ordinary user");
        base = Files.createTempDirectory("ppmr-checkpoint-it");
        Files.setPosixFilePermissions(base, PosixFilePermissions.fromString("rwxr-xr-x"));
        bin = Files.createDirectory(base.resolve("bin"));
        for (String property : List.of("ppmr.native.dir", "ppmr.native.test.dir")) {
            try (DirectoryStream<Path> files = Files.newDirectoryStream(Path.of(System.getProperty(property)))) {
                for (Path file : files) {
                    Files.copy(file, bin.resolve(file.getFileName()), StandardCopyOption.COPY_ATTRIBUTES);
                }
            }
        }
        programs = new NativePrograms(bin);
        signals = new SignalSender(table);
        jobs = userDirectory("jobs");
    }

    /** Makes a new directory of the job's user. */
    Path userDirectory(String name) throws IOException {
        Path directory = Files.createDirectory(
                base.resolve(name), PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
        Files.setAttribute(directory, "unix:uid", user.uid());
        Files.setAttribute(directory, "unix:gid", user.gid());
        return directory;
    }

    /** Runs a short command as an ordinary user, {@link #USER}. It must succeed. */
    void asUser(String... command) throws CheckpointException {
        Command.CommandResult result = CommandStarter.call(launchedAsUser(command), LIMIT);
        assertEquals(0, result.exitCode(), result.output());
    }

    /** Starts {@code path-racer} as that user and waits until it has begun. It ends with the fixture. */
    Process raceAsUser(String... arguments) throws IOException {
        List<String> command = new ArrayList<>(List.of(bin.resolve("path-racer").toString()));
        command.addAll(List.of(arguments));
        Process racer = new ProcessBuilder(launchedAsUser(command.toArray(String[]::new)))
                .redirectErrorStream(true)
                .start();
        String printed = racer.inputReader().readLine();
        assertEquals("ready", printed);
        return racer;
    }

    private List<String> launchedAsUser(String... command) {
        List<String> words = new ArrayList<>(
                List.of(programs.launch().toString(), "--uid", "" + USER.uid(), "--gid", "" + USER.gid(), "--"));
        words.addAll(List.of(command));
        return words;
    }

    /** Makes a work directory of the service. */
    Path work(String name) {
        return base.resolve("work-" + name);
    }

    /** A job that was started, and its output files. */
    record Job(ProcessIdentity root, Path out, Path progress, String expected) {
        int passes() {
            try {
                return Files.readAllLines(progress).size();
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }
    }

    Job start(String program, String name, String... parameters) throws Exception {
        return start(program, user, name, parameters);
    }

    /** Starts a job and waits until it has computed its first pass. */
    Job start(String program, JobUser user, String name, String... parameters) throws Exception {
        Path out = jobs.resolve(name + ".out");
        Path progress = jobs.resolve(name + ".progress");
        List<String> arguments = new ArrayList<>(List.of(parameters));
        List<String> expect = new ArrayList<>(List.of(bin.resolve(program).toString()));
        expect.addAll(arguments);
        expect.add("--expect");
        Command.CommandResult expected = CommandStarter.call(expect, LIMIT);
        assertEquals(0, expected.exitCode(), expected.output());

        List<String> command = new ArrayList<>(List.of(
                programs.launch().toString(),
                "--uid",
                "" + user.uid(),
                "--gid",
                "" + user.gid(),
                "--",
                bin.resolve(program).toString(),
                "--out",
                out.toString(),
                "--progress",
                progress.toString()));
        command.addAll(arguments);
        Process process = new ProcessBuilder(command)
                .directory(jobs.toFile())
                .redirectInput(ToolProcess.NULL)
                .redirectErrorStream(true)
                .redirectOutput(ToolProcess.NULL)
                .start();
        assertTrue(Polling.until(LIMIT, () -> Files.exists(progress) && lines(progress) > 0), "the job has not begun");
        return new Job(table.of((int) process.pid()), out, progress, expected.output());
    }

    /** Starts a job whose parent has ended, like one that a login has left behind, and waits for its first pass. */
    Job startOrphan(String name, JobUser user, String... parameters) throws Exception {
        Path pidFile = base.resolve(name + ".pid");
        Path progress = jobs.resolve(name + ".progress");
        Path out = jobs.resolve(name + ".out");
        List<String> arguments = List.of(parameters);
        List<String> expect =
                new ArrayList<>(List.of(bin.resolve("selfckpt-job").toString()));
        expect.addAll(arguments);
        expect.add("--expect");
        String expected = CommandStarter.call(expect, LIMIT).output();
        List<String> command = new ArrayList<>(List.of(
                "sh", "-c", "file=$1; shift; \"$@\" </dev/null >/dev/null 2>&1 & echo $! >$file", "sh", "" + pidFile));
        command.addAll(List.of(programs.launch().toString(), "--uid", "" + user.uid(), "--gid", "" + user.gid(), "--"));
        command.addAll(List.of(bin.resolve("selfckpt-job").toString(), "--out", "" + out, "--progress", "" + progress));
        command.addAll(arguments);
        assertEquals(0, CommandStarter.call(command, LIMIT).exitCode());
        assertTrue(Polling.until(LIMIT, () -> Files.exists(progress) && lines(progress) > 0), "the job has not begun");
        ProcessIdentity root =
                table.of(Integer.parseInt(Files.readString(pidFile).trim()));
        assertEquals(1, table.parent(root), "it is init's child");
        return new Job(root, out, progress, expected);
    }

    private static int lines(Path file) {
        try {
            return Files.readAllLines(file).size();
        } catch (NoSuchFileException e) {
            return 0;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    CheckpointTask checkpoint(int rank, ProcessIdentity root, Path images, String work) {
        return new CheckpointTask(
                rank, treeOf(root), user, images, work(work), LIMIT, table.stopped(List.of(root)), Optional.empty());
    }

    /** Returns the processes of a rank, or its root if it is gone. */
    List<ProcessIdentity> treeOf(ProcessIdentity root) {
        List<ProcessIdentity> tree = table.tree(root);
        return tree.isEmpty() ? List.of(root) : tree;
    }

    RestartTask restart(int rank, Path images, String work) {
        return new RestartTask(rank, user, images, work(work), LIMIT);
    }

    /** Waits for a command's end. */
    static HeldRank finish(RankCommand command) throws CheckpointException, InterruptedException {
        HeldRank held = command.await(LIMIT);
        assertTrue(held != null, "the command has not ended");
        return held;
    }

    /** Waits for a job's result and compares it with the undisturbed run's. */
    void requireResult(Job job) throws Exception {
        assertTrue(Polling.until(LIMIT, () -> Files.exists(job.out())), "the job has not ended");
        assertEquals(job.expected(), Files.readString(job.out()).trim());
    }

    /** Lists processes that still run from this fixture's directory, by command line. */
    List<String> leftovers() throws IOException {
        List<String> found = new ArrayList<>();
        for (int pid : pidsOfFixture()) {
            found.add(pid + " " + commandLine(pid));
        }
        return found;
    }

    void requireNothingLeft() throws Exception {
        Polling.until(Duration.ofSeconds(10), () -> {
            try {
                return leftovers().isEmpty();
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        });
        assertEquals(List.of(), leftovers());
    }

    private List<Integer> pidsOfFixture() throws IOException {
        List<Integer> found = new ArrayList<>();
        try (DirectoryStream<Path> entries = Files.newDirectoryStream(Path.of("/proc"), "[0-9]*")) {
            for (Path entry : entries) {
                int pid = Integer.parseInt(entry.getFileName().toString());
                boolean ours = commandLine(pid).contains(base.toString())
                        || program(entry).startsWith(base.toString());
                if (ours
                        && pid != ProcessHandle.current().pid()
                        && table.find(pid).isPresent()) {
                    found.add(pid);
                }
            }
        }
        return found;
    }

    private static String program(Path entry) {
        try {
            return Files.readSymbolicLink(entry.resolve("exe")).toString();
        } catch (IOException gone) {
            return "";
        }
    }

    private static String commandLine(int pid) {
        try {
            return Files.readString(Path.of("/proc/" + pid + "/cmdline"), StandardCharsets.ISO_8859_1)
                    .replace('\0', ' ');
        } catch (IOException gone) {
            return "";
        }
    }

    @Override
    public void close() throws IOException {
        try {
            Polling.until(LIMIT, () -> {
                try {
                    for (int pid : pidsOfFixture()) {
                        var process = table.find(pid);
                        if (process.isPresent()) {
                            signals.send(SignalSender.Signal.KILL, process.get());
                        }
                    }
                    return pidsOfFixture().isEmpty();
                } catch (IOException e) {
                    throw new UncheckedIOException(e);
                }
            });
        } catch (CheckpointException e) {
            throw new IOException("processes of the test could not be ended", e);
        } finally {
            try (Stream<Path> files = Files.walk(base)) {
                for (Path file : files.sorted(Comparator.reverseOrder()).toList()) {
                    Files.deleteIfExists(file);
                }
            }
        }
    }
}
