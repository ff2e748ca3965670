package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.Checkpointer.RunAs;
import io.ppmr.checkpoint.CheckpointerSettings;
import io.ppmr.checkpoint.CheckpointerSettings.NamespacePolicy;
import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.migration.source.Job;
import io.ppmr.migration.source.JobHooks;
import io.ppmr.protocol.data.ReadingMode;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Patience;
import io.ppmr.testbed.TestNode;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Stream;

/**
 * A job whose every rank computes a chain of sums and writes each into its ledger. So the ledger shows whether the
 * computation continues, with the right result, and once. A second live copy, or a copy that restarts, repeats a step.
 * A lost copy adds nothing. Its checkpointer and its restart are the program image-replay.
 */
final class LedgerJob implements AutoCloseable {
    private static final Path HOME = Path.of(System.getProperty("ppmr.home"));
    static final Path REPLAY = HOME.resolve("ppmr-system-tests/target/native-test/image-replay");
    private static final Path NATIVE = HOME.resolve("ppmr-checkpoint/target/native");
    private static final long MULTIPLIER_1 = 0x9E3779B97F4A7C15L;
    private static final long MULTIPLIER_2 = 0xD1B54A32D192ED03L;
    private static final long MULTIPLIER_3 = 0xBF58476D1CE4E5B9L;
    private static final int MORE_STEPS = 3;

    /** A file that restarts may open and checkpoints do not write. An open blocks until the image is whole. */
    static final String NEVER = "never";

    private final Path directory;
    private final Map<Integer, LedgerProcess> originals = new TreeMap<>();
    private boolean writesInProcess;

    /** A line of a ledger. */
    private record Step(long number, long sum, long pid) {}

    /** Removes the files of an earlier job from its directory. The processes of that job are gone. */
    static void clear(Path directory) throws IOException {
        if (Files.exists(directory)) {
            try (Stream<Path> files = Files.list(directory)) {
                for (Path file : files.toList()) {
                    Files.delete(file);
                }
            }
        }
    }

    /** Creates a job with this number of ranks, from 0. */
    LedgerJob(Path directory, int ranks) throws Exception {
        this(directory, 0, ranks);
    }

    /**
     * @param directory the directory of its scripts, ledgers and marks; may be that of another job with other ranks
     */
    LedgerJob(Path directory, int firstRank, int ranks) throws Exception {
        this(directory, firstRank, ranks, List.of());
    }

    /** @param node words before those of a command that is to run in a node of its own ({@link TestNode#prefix}) */
    LedgerJob(Path directory, int firstRank, int ranks, List<String> node) throws Exception {
        this.directory = Files.createDirectories(directory);
        Files.setPosixFilePermissions(this.directory, PosixFilePermissions.fromString("rwxrwxrwx"));
        for (int rank = firstRank; rank < firstRank + ranks; rank++) {
            checkpoints(rank, "write 1m");
            restarts(rank, "read 1m");
            script("compute-" + rank, List.of("compute " + ledger(rank)));
            Path script = this.directory.resolve("compute-" + rank);
            Path pidFile = this.directory.resolve("pid-" + rank);
            originals.put(
                    rank,
                    node.isEmpty()
                            ? LedgerProcess.startHere(script, pidFile)
                            : LedgerProcess.startIn(node, script, pidFile));
        }
        for (int rank : originals.keySet()) {
            int asked = rank;
            Conditions.until("rank " + rank + " computes", () -> !steps(asked).isEmpty());
        }
    }

    /**
     * Adds calls that a rank's checkpointer makes between stopping the process, saving its state, and the end of the
     * image.
     */
    void checkpoints(int rank, String... calls) throws IOException {
        List<String> lines = new ArrayList<>(List.of("stop", "open image wcx", "save " + ledger(rank)));
        lines.addAll(List.of(calls));
        lines.add("close");
        script("checkpoint-" + rank, lines);
    }

    /**
     * A rank writes its image itself, under a temporary name, as DMTCP does, and aborts on the first call that fails.
     * The calls are those between saving its state and the end of the image. It stops itself when that is done.
     */
    void writesInProcess(int rank, String... calls) throws IOException {
        writesInProcess = true;
        List<String> lines = new ArrayList<>(List.of("open image.temp wcx", "save " + ledger(rank)));
        lines.addAll(List.of(calls));
        lines.addAll(List.of("close", "rename image.temp image"));
        script("within-" + rank, lines);
        script("checkpoint-" + rank, List.of("ask " + ledger(rank) + " " + directory + "/within-" + rank));
    }

    /** Adds calls that a rank's restart makes between reading the state and making the copy. */
    void restarts(int rank, String... calls) throws IOException {
        restartsBy("restart", rank, calls);
    }

    /** A rank's restart is killed after it made the copy and before it reported that. */
    void restartsInVain(int rank) throws IOException {
        script("restart-" + rank, List.of("open image r", "load " + ledger(rank), "read 1m", "spawn quietly", "die"));
    }

    /** Sets the restarts of a checkpointer of its own. */
    void restartsBy(String kind, int rank, String... calls) throws IOException {
        List<String> lines = new ArrayList<>(List.of("open image r", "load " + ledger(rank)));
        lines.addAll(List.of(calls));
        lines.add("spawn");
        script(kind + "-" + rank, lines);
    }

    private void script(String name, List<String> lines) throws IOException {
        Files.write(directory.resolve(name), lines);
    }

    Path ledger(int rank) {
        return directory.resolve("ledger-" + rank);
    }

    /** A file for "touch" and "await" in scripts. */
    Path mark(String name) {
        return directory.resolve("mark-" + name);
    }

    /** Makes a mark that a script awaits. */
    void set(String mark) throws IOException {
        Files.createFile(mark(mark));
    }

    /** Waits until a script has made a mark. */
    void awaitMark(String mark) throws Exception {
        Conditions.until("a script says " + mark, () -> Files.exists(mark(mark)));
    }

    long pid(int rank) {
        return originals.get(rank).pid();
    }

    Checkpointer checkpointer() {
        return checkpointer("restart", true);
    }

    /** @param restart which restart scripts: see {@link #restartsBy} */
    Checkpointer checkpointer(String restart, boolean checkpointsHeldRanks) {
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
                                directory + "/" + restart + "-{rank}"),
                        ReadingMode.STREAMED,
                        "image",
                        List.of("image"),
                        List.of(),
                        Map.of(".temp", ""),
                        RunAs.JOB_USER,
                        checkpointsHeldRanks,
                        writesInProcess,
                        NamespacePolicy.NEVER)
                .create("command", new NativePrograms(NATIVE));
    }

    /** Returns its checkpointer in the form of a configuration. */
    static String checkpointerToml(Path directory) {
        return checkpointerToml(directory, false);
    }

    /** @param writesInProcess whether {@link #writesInProcess} must be used */
    static String checkpointerToml(Path directory, boolean writesInProcess) {
        return """
                [checkpointers.ledger]
                type = "command"
                checkpoint = ["%1$s", "--dir", "{dir}", "--pid", "{pid}", "%2$s/checkpoint-{rank}"]
                restart = ["%1$s", "--dir", "{dir}", "--pidfile", "{pidfile}", "%2$s/restart-{rank}"]
                file = "image"
                expected_names = ["image", "%4$s"]
                temporary_suffixes = [".temp="]
                checkpoints_held = true
                in_process_writer = %3$s
                """.formatted(REPLAY, directory, writesInProcess, NEVER);
    }

    /** Returns the job in the form of a source's configuration, with further lines of its table. */
    static String toml(Path directory, int ranks, String more) {
        StringBuilder entries = new StringBuilder();
        for (int rank = 0; rank < ranks; rank++) {
            entries.append("{rank = %d, pid_file = \"%s/pid-%d\"}, ".formatted(rank, directory, rank));
        }
        return """
                [jobs.ledger]
                user = %d
                group = %d
                checkpointer = "ledger"
                ranks = [%s]
                %s
                """.formatted(ReplayJob.USER.uid(), ReplayJob.USER.gid(), entries, more);
    }

    Job job() {
        return job(checkpointer(), Map.of(), JobHooks.NONE);
    }

    Job job(Checkpointer checkpointer, Map<Integer, String> others, JobHooks hooks) {
        List<Job.RankProcess> ranks = new ArrayList<>();
        for (int rank : originals.keySet()) {
            ranks.add(new Job.RankProcess(rank, (int) pid(rank)));
        }
        return new Job("ledger", ReplayJob.USER, checkpointer, ranks, others, hooks, Map.of());
    }

    // ---- what the ledgers show -------------------------------------------------------------------------------------

    /** Every rank continues where it was, with the right result, and no other process of it lives. */
    void runsHere() throws Exception {
        for (int rank : originals.keySet()) {
            runsHere(rank);
        }
    }

    /** Every rank continues in a copy, with the right result, and no other process of it lives. */
    void runsThere() throws Exception {
        for (int rank : originals.keySet()) {
            runsThere(rank);
        }
    }

    /** One rank continues in a copy, with the right result, and no other process of it lives. */
    void runsThere(int rank) throws Exception {
        long pid = goesOn(rank);
        assertNotEquals(pid(rank), pid, "rank " + rank + " is to continue in a copy");
        Conditions.until("the original of rank " + rank + " has ended", () -> !lives(pid(rank)));
        nothingElseLives(rank, pid);
    }

    /** The copy of a rank that lives, running or not. */
    long copy(int rank) throws IOException {
        List<Long> living = copies(rank).stream().filter(this::lives).toList();
        assertEquals(1, living.size(), "copies of rank " + rank);
        return living.get(0);
    }

    /** A process of the job is stopped, as its user does it. */
    static void stop(long pid) throws Exception {
        signal("STOP", pid);
        Conditions.until("PID " + pid + " is stopped", () -> isStopped(pid));
    }

    /** A process of the job is continued, as its user does it. */
    static void goOn(long pid) throws Exception {
        signal("CONT", pid);
    }

    private static void signal(String name, long pid) throws Exception {
        Process kill = new ProcessBuilder("kill", "-" + name, Long.toString(pid)).start();
        assertEquals(0, kill.waitFor(), "kill -" + name + " " + pid);
    }

    static boolean isStopped(long pid) throws IOException {
        String stat = Files.readString(Path.of("/proc", Long.toString(pid), "stat"), StandardCharsets.ISO_8859_1);
        return stat.charAt(stat.lastIndexOf(')') + 2) == 'T';
    }

    /** Returns the number of a rank's steps. */
    int stepsOf(int rank) throws IOException {
        return steps(rank).size();
    }

    /**
     * Returns true if every rank continues in a copy, and false if every rank continues in its original. Anything else
     * is half a job, and fails.
     */
    boolean isMoved() throws Exception {
        int first = originals.keySet().iterator().next();
        boolean moved = goesOn(first) != pid(first);
        if (moved) {
            runsThere();
        } else {
            runsHere();
        }
        return moved;
    }

    /** Waits until a rank continues, and checks every step so far. Returns its process. */
    private long goesOn(int rank) throws Exception {
        int before = steps(rank).size();
        Conditions.until("rank " + rank + " continues", () -> steps(rank).size() >= before + MORE_STEPS);
        List<Step> steps = steps(rank);
        check(rank, steps);
        long pid = steps.get(steps.size() - 1).pid();
        for (Step step : steps.subList(before, steps.size())) {
            assertEquals(pid, step.pid(), "rank " + rank + " is computed by two processes at step " + step.number());
        }
        return pid;
    }

    private static void check(int rank, List<Step> steps) {
        long sum = 1;
        for (int i = 0; i < steps.size(); i++) {
            Step step = steps.get(i);
            sum = word(i + 1) ^ (sum * 31);
            assertEquals(i + 1, step.number(), "rank " + rank + " has repeated or left out a step: " + step);
            assertEquals(sum, step.sum(), "rank " + rank + " has a wrong result: " + step);
        }
    }

    /** This function is equal to the one in image-replay.c, for seed 1. */
    private static long word(long index) {
        long x = ((index + 1) * MULTIPLIER_1) ^ MULTIPLIER_2;
        x ^= x >>> 29;
        x *= MULTIPLIER_3;
        return x ^ (x >>> 32);
    }

    private List<Step> steps(int rank) throws IOException {
        List<Step> steps = new ArrayList<>();
        if (Files.exists(ledger(rank))) {
            String text = Files.readString(ledger(rank), StandardCharsets.US_ASCII);
            for (String line :
                    text.substring(0, text.lastIndexOf('\n') + 1).lines().toList()) {
                String[] words = line.split(" ", -1);
                steps.add(new Step(
                        Long.parseLong(words[0]), Long.parseUnsignedLong(words[1], 16), Long.parseLong(words[2])));
            }
        }
        return steps;
    }

    private void nothingElseLives(int rank, long pid) throws Exception {
        Conditions.until(
                "only process " + pid + " of rank " + rank + " lives",
                () -> lives(pid) && living(rank).stream().allMatch(other -> other == pid));
        check(rank, steps(rank));
    }

    /** The processes of a rank that exist: the original and its copies, held or not. */
    private List<Long> living(int rank) throws IOException {
        List<Long> pids = new ArrayList<>(copies(rank));
        pids.add(pid(rank));
        return pids.stream().filter(living()::contains).toList();
    }

    /** Returns how many copies of a rank exist, held or not. */
    int livingCopies(int rank) throws IOException {
        return (int) copies(rank).stream().filter(living()::contains).count();
    }

    /** Returns what the restarts have made so far. */
    private List<Long> copies(int rank) throws IOException {
        Path noted = directory.resolve("ledger-" + rank + ".copies");
        return Files.exists(noted)
                ? Files.readAllLines(noted).stream().map(Long::valueOf).toList()
                : List.of();
    }

    /** Returns how far a rank was at each checkpoint. */
    List<String> saved(int rank) throws IOException {
        Path noted = directory.resolve("ledger-" + rank + ".saved");
        return Files.exists(noted) ? Files.readAllLines(noted) : List.of();
    }

    /** Every rank is stopped. No process of it runs during a period of observation. */
    void standsStill() throws Exception {
        for (int rank : originals.keySet()) {
            int before = steps(rank).size();
            long deadlineNs = System.nanoTime() + TimeUnit.SECONDS.toNanos(1);
            while (System.nanoTime() - deadlineNs < 0) {
                LockSupport.parkNanos(deadlineNs - System.nanoTime());
            }
            List<Step> steps = steps(rank);
            assertEquals(
                    before,
                    steps.size(),
                    "rank " + rank + " is to be held; original " + pid(rank) + ", copies " + copies(rank)
                            + ", programs that live " + programs() + ", last steps "
                            + steps.subList(Math.max(0, before - 2), steps.size()));
        }
    }

    /** Removes from every ledger the steps after the last checkpoint. */
    void cutToSaved() throws IOException {
        for (int rank : originals.keySet()) {
            List<String> saved = saved(rank);
            int last = Integer.parseInt(saved.get(saved.size() - 1).split(" ", -1)[0]);
            Files.write(ledger(rank), Files.readAllLines(ledger(rank)).subList(0, last));
        }
    }

    /** Ends an original, as the death of its node does. */
    void killOriginal(int rank) throws InterruptedException {
        Process child = originals.get(rank).child().orElseThrow();
        child.destroyForcibly();
        assertTrue(child.waitFor(Patience.of(60), TimeUnit.SECONDS), "an original does not end");
    }

    /** Requires that no process of any rank lives, neither original nor copy, checkpoint or restart. */
    void isGone() throws Exception {
        Conditions.until("nothing of the job is left", () -> programs().isEmpty());
    }

    /** Ends every copy, as the death of its node does. */
    void killCopies() throws Exception {
        for (int rank : originals.keySet()) {
            copies(rank).stream().filter(this::lives).forEach(LedgerJob::kill);
            Conditions.until("no copy of rank " + rank + " lives", () -> livingCopies(rank) == 0);
        }
    }

    /** One rank continues where it was, with the right result, and no other process of it lives. */
    void runsHere(int rank) throws Exception {
        assertEquals(pid(rank), goesOn(rank), "rank " + rank + " is to continue in its original");
        nothingElseLives(rank, pid(rank));
    }

    /** Processes of the program image-replay that work for this job: originals, copies, checkpoints and restarts. */
    List<Long> programs() {
        return LedgerProcess.of(directory);
    }

    /** Returns these processes by the PIDs in their nodes. */
    private List<Long> living() {
        return programs().stream()
                .map(LedgerProcess::inside)
                .flatMap(Optional::stream)
                .toList();
    }

    /** Returns true if a rank's original exists, held or not. */
    boolean originalLives(int rank) {
        return lives(pid(rank));
    }

    private boolean lives(long pid) {
        return living().contains(pid);
    }

    @Override
    public void close() {
        originals.values().forEach(original -> original.child().ifPresent(Process::destroyForcibly));
        programs().forEach(LedgerJob::kill);
    }

    private static void kill(long pid) {
        ProcessHandle.of(pid).ifPresent(ProcessHandle::destroyForcibly);
    }
}
