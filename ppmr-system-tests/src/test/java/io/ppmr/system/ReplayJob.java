package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.Checkpointer.RunAs;
import io.ppmr.checkpoint.CheckpointerSettings;
import io.ppmr.checkpoint.CheckpointerSettings.NamespacePolicy;
import io.ppmr.checkpoint.JobUser;
import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.checkpoint.ProcessTable;
import io.ppmr.migration.keep.Keeping;
import io.ppmr.migration.source.Cancellation;
import io.ppmr.migration.source.Job;
import io.ppmr.migration.source.JobHooks;
import io.ppmr.migration.source.MigrationOrder;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.protocol.data.ReadingMode;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Patience;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.TimeUnit;

/**
 * A job of real processes, whose checkpointer and restart are the program image-replay. Each makes the system calls of
 * a script. The processes are stopped, ended and continued as any others. Only the I/O is replayed.
 */
public final class ReplayJob implements AutoCloseable {
    /** The ordinary user of the jobs in these tests. */
    static final JobUser USER = new JobUser(20001, 20001);

    private static final Path HOME = Path.of(System.getProperty("ppmr.home"));
    private static final Path REPLAY = HOME.resolve("ppmr-system-tests/target/native-test/image-replay");
    private static final Path NATIVE = HOME.resolve("ppmr-checkpoint/target/native");

    private final Path directory;
    private final List<Process> originals = new ArrayList<>();
    private final List<Integer> copies = new ArrayList<>();
    private final ProcessTable processes = new ProcessTable();
    private final List<Job.RankProcess> strangers = new ArrayList<>();
    private ReadingMode readingMode = ReadingMode.STREAMED;
    private List<String> announced = List.of("image");
    private List<String> completion = List.of();
    private Map<String, String> temporary = Map.of();
    private boolean saysNotHowItWrites;

    /** A job whose scripts, and their files outside the mounts, are in that directory. */
    public ReplayJob(Path directory) throws IOException {
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

    /** Its checkpointer counts as one that writes from within, which is the default. */
    ReplayJob countsAsWithin() {
        saysNotHowItWrites = true;
        return this;
    }

    /** Adds a rank: the calls of its checkpointer, which stops the process in the end, and those of its restart. */
    public ReplayJob rank(List<String> checkpoint, List<String> restart) throws IOException {
        int rank = originals.size();
        write("checkpoint-" + rank, checkpoint, "stop");
        write("restart-" + rank, restart, "spawn");
        originals.add(asUser(USER.uid(), "sleep", "600").start());
        return this;
    }

    /** Adds a rank with this amount of memory. */
    ReplayJob rank(int memoryBytes, List<String> checkpoint, List<String> restart) throws Exception {
        rank(checkpoint, restart);
        originals.remove(originals.size() - 1).destroyForcibly();
        Process large = asUser(USER.uid(), "perl", "-e", "$m = 'x' x " + memoryBytes + "; sleep 600")
                .start();
        originals.add(large);
        Conditions.until(
                "the job has its memory", () -> Files.readAllLines(Path.of("/proc/" + large.pid() + "/status")).stream()
                        .filter(line -> line.startsWith("RssAnon:"))
                        .anyMatch(line -> Long.parseLong(line.replaceAll("\\D", "")) * 1024 >= memoryBytes));
        return this;
    }

    /** Adds a rank of a process that this job did not start. */
    ReplayJob stranger(long pid) {
        strangers.add(new Job.RankProcess(originals.size() + strangers.size(), (int) pid));
        return this;
    }

    /** A script for "also". */
    Path script(String name, List<String> calls) throws IOException {
        return Files.write(directory.resolve(name), calls);
    }

    private void write(String name, List<String> calls, String last) throws IOException {
        List<String> lines = new ArrayList<>(calls);
        lines.add(last);
        Path script = directory.resolve(name);
        Files.write(script, lines);
    }

    /** A file outside the mounts, for "touch" and "await" in scripts. */
    public Path outside(String name) {
        return directory.resolve(name);
    }

    /** Returns the checkpointer of this job, which restarts it, too. */
    public Checkpointer checkpointer() {
        return new CheckpointerSettings.CommandTool(
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
                        RunAs.JOB_USER,
                        true,
                        saysNotHowItWrites,
                        NamespacePolicy.NEVER)
                .create("command", new NativePrograms(NATIVE));
    }

    /** Returns this job's checkpointer in the form of a configuration. */
    String toml() {
        return """
                [checkpointers.replay]
                type = "command"
                checkpoint = ["%1$s", "--dir", "{dir}", "--pid", "{pid}", "%2$s/checkpoint-{rank}"]
                restart = ["%1$s", "--dir", "{dir}", "--pidfile", "{pidfile}", "%2$s/restart-{rank}"]
                file = "image"
                expected_names = ["image"]
                in_process_writer = false
                %3$s
                """.formatted(REPLAY, directory, readingMode == ReadingMode.RETAINED ? "reading = \"retained\"" : "");
    }

    /** Returns this job in the form of a source's configuration. */
    String jobToml() {
        StringBuilder ranks = new StringBuilder();
        for (int rank = 0; rank < originals.size(); rank++) {
            ranks.append("{rank = %d, pid = %d}, "
                    .formatted(rank, originals.get(rank).pid()));
        }
        return """
                [jobs.replay]
                user = %d
                group = %d
                checkpointer = "replay"
                ranks = [%s]
                """.formatted(USER.uid(), USER.gid(), ranks);
    }

    /** Moves the job, and remembers the copies so that they are ended with the test. */
    MigrationReport migrate(ServicePair pair) throws InterruptedException {
        return migrate(pair, Keeping.KeepRequest.NONE);
    }

    /** Moves the job, and may keep a copy. */
    MigrationReport migrate(ServicePair pair, Keeping.KeepRequest keep) throws InterruptedException {
        return migrate(pair, checkpointer(), keep);
    }

    /** Moves the job by another checkpointer than its own. */
    MigrationReport migrateBy(ServicePair pair, Checkpointer checkpointer) throws InterruptedException {
        return migrate(pair, checkpointer, Keeping.KeepRequest.NONE);
    }

    /** Moves one process under the name of this user. */
    MigrationReport migrateAs(ServicePair pair, JobUser user, long pid) throws InterruptedException {
        Job job = new Job("replay", user, checkpointer(), List.of(new Job.RankProcess(0, (int) pid)));
        return migrate(pair, job, Keeping.KeepRequest.NONE);
    }

    /** Moves the job, which has this number of further ranks elsewhere according to its facts. */
    MigrationReport migrateWith(ServicePair pair, int others) throws InterruptedException {
        Map<Integer, String> elsewhere = new HashMap<>();
        for (int rank = originals.size(); rank < originals.size() + others; rank++) {
            elsewhere.put(rank, "node-" + rank + ".cluster.example");
        }
        List<Job.RankProcess> ranks = new ArrayList<>();
        for (int rank = 0; rank < originals.size(); rank++) {
            ranks.add(new Job.RankProcess(rank, (int) originals.get(rank).pid()));
        }
        return migrate(
                pair,
                new Job("replay", USER, checkpointer(), ranks, elsewhere, JobHooks.NONE, Map.of()),
                Keeping.KeepRequest.NONE);
    }

    /** Moves the job, whose library is notified by these hooks. */
    MigrationReport migrateWith(ServicePair pair, JobHooks hooks) throws InterruptedException {
        return migrateWith(pair, hooks, new Cancellation());
    }

    /** Moves the job with these hooks, and may be cancelled. */
    MigrationReport migrateWith(ServicePair pair, JobHooks hooks, Cancellation cancellation)
            throws InterruptedException {
        List<Job.RankProcess> ranks = new ArrayList<>();
        for (int rank = 0; rank < originals.size(); rank++) {
            ranks.add(new Job.RankProcess(rank, (int) originals.get(rank).pid()));
        }
        Job job = new Job("replay", USER, checkpointer(), ranks, Map.of(), hooks, Map.of());
        return migrate(pair, job, Keeping.KeepRequest.NONE, cancellation);
    }

    /** An original's. */
    long pid(int rank) {
        return originals.get(rank).pid();
    }

    private MigrationReport migrate(ServicePair pair, Checkpointer checkpointer, Keeping.KeepRequest keep)
            throws InterruptedException {
        List<Job.RankProcess> ranks = new ArrayList<>();
        for (int rank = 0; rank < originals.size(); rank++) {
            ranks.add(new Job.RankProcess(rank, (int) originals.get(rank).pid()));
        }
        ranks.addAll(strangers);
        return migrate(pair, new Job("replay", USER, checkpointer, ranks), keep);
    }

    /** Moves the job, and cancels that when this number of bytes is written. */
    MigrationReport cancelledAt(ServicePair pair, long bytes) throws InterruptedException {
        Cancellation cancellation = new Cancellation();
        Job job = new Job("replay", USER, checkpointer(), List.of(new Job.RankProcess(0, (int) pid(0))));
        return pair.source()
                .migrate(
                        UUID.randomUUID().toString(),
                        new MigrationOrder(job, List.of(), "a test", Keeping.KeepRequest.NONE),
                        cancellation,
                        progress -> {
                            if (progress.sentBytes() > bytes) {
                                cancellation.cancel("a test has called it off");
                            }
                        });
    }

    private MigrationReport migrate(ServicePair pair, Job job, Keeping.KeepRequest keep) throws InterruptedException {
        return migrate(pair, job, keep, new Cancellation());
    }

    private MigrationReport migrate(ServicePair pair, Job job, Keeping.KeepRequest keep, Cancellation cancellation)
            throws InterruptedException {
        MigrationReport report = pair.source()
                .migrate(
                        UUID.randomUUID().toString(),
                        new MigrationOrder(job, List.of(), "a test", keep),
                        cancellation,
                        progress -> {});
        report.ranks().forEach(rank -> copies.addAll(rank.pids()));
        return report;
    }

    /** Moves the job, which must succeed. The originals are gone and the copies run. */
    public MigrationReport commits(ServicePair pair) throws InterruptedException {
        MigrationReport report = migrate(pair);
        assertEquals(MigrationReport.Outcome.COMMITTED, report.outcome(), report.reason());
        assertTrue(originalsAreGone(), "an original is left");
        assertTrue(copiesRun(), "a copy does not run");
        return report;
    }

    /** Moves the job, which must fail and report each of these words. The originals continue and no copy remains. */
    MigrationReport rollsBack(ServicePair pair, String... words) throws Exception {
        return fails(pair, MigrationReport.Outcome.ROLLED_BACK, words);
    }

    /**
     * Moves the job, which must end with this outcome and report each of these words. The originals continue and no
     * copy remains.
     */
    MigrationReport fails(ServicePair pair, MigrationReport.Outcome outcome, String... words) throws Exception {
        MigrationReport report = migrate(pair);
        assertEquals(outcome, report.outcome(), report.reason());
        for (String word : words) {
            assertTrue(report.reason().contains(word), "'" + report.reason() + "' does not say '" + word + "'");
        }
        assertFalse(report.reason().contains("stall_limit"), report.reason());
        assertTrue(originalsRun(), "an original does not run");
        // The source rolls back after it notified a target that has not voted. That target's restarts end in the
        // meantime.
        Conditions.until("no copy is left", () -> copies.stream()
                .noneMatch(pid -> processes.find(pid).isPresent()));
        return report;
    }

    /**
     * Runs calls as some user in a directory. Returns the program's output, which is empty if all calls had their
     * expected results.
     */
    String replayAs(int uid, Path at, String... calls) throws IOException, InterruptedException {
        Path script = Files.write(Files.createTempFile(directory, "calls", ""), List.of(calls));
        Files.setPosixFilePermissions(script, PosixFilePermissions.fromString("rw-r--r--"));
        Process process = asUser(uid, REPLAY.toString(), "--dir", at.toString(), script.toString())
                .redirectErrorStream(true)
                .start();
        try {
            String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            return process.waitFor() == 0 ? said : said + "exit status " + process.exitValue();
        } finally {
            process.destroyForcibly();
        }
    }

    private static ProcessBuilder asUser(int uid, String... command) {
        List<String> words = new ArrayList<>(
                List.of("setpriv", "--reuid", String.valueOf(uid), "--regid", String.valueOf(uid), "--clear-groups"));
        words.addAll(List.of(command));
        return new ProcessBuilder(words);
    }

    /** Returns true if every original lives and runs. */
    boolean originalsRun() {
        return originals.stream().allMatch(original -> processes
                .find((int) original.pid())
                .map(processes::isRunning)
                .orElse(false));
    }

    /**
     * Returns how often the originals were switched to: one that only sleeps is not, unless it was stopped or
     * continued.
     */
    long contextSwitches() throws IOException {
        long switches = 0;
        for (Process original : originals) {
            for (String line : Files.readAllLines(Path.of("/proc", Long.toString(original.pid()), "status"))) {
                if (line.contains("ctxt_switches")) {
                    switches += Long.parseLong(line.replaceAll("[^0-9]", ""));
                }
            }
        }
        return switches;
    }

    boolean originalsAreGone() throws InterruptedException {
        for (Process original : originals) {
            if (!original.waitFor(Patience.of(60), TimeUnit.SECONDS)) {
                return false;
            }
        }
        return true;
    }

    /** Returns true if every copy lives and runs. */
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
