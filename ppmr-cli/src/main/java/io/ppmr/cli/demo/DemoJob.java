package io.ppmr.cli.demo;

import io.ppmr.checkpoint.JobUser;
import io.ppmr.checkpoint.ProcessIdentity;
import io.ppmr.checkpoint.ProcessTable;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;

/**
 * A job of several processes that compute in passes over their memory and write down each pass. For one thread.
 *
 * <p>A process has gone on, and not begun again, if its passes are numbered without gap or repetition across the move.
 */
public final class DemoJob {
    private static final int PASSES = 30;
    private static final int PACE_MS = 400;
    private static final int FIRST_SEED = 1000;
    private static final Duration START_LIMIT = Duration.ofSeconds(60);
    private static final long LOOK_NS = TimeUnit.MILLISECONDS.toNanos(10);

    private final Path program;
    private final JobUser user;
    private final Path folder;
    private final long sizeBytes;
    private final List<Rank> ranks = new ArrayList<>();

    private static final class Rank {
        private final int number;
        private final Path folder;
        private ProcessIdentity original;
        private Process expectation;
        private List<String> passesBefore = List.of();
        private int passesAtEnd;
        private boolean runsThere;

        Rank(int number, Path folder) {
            this.number = number;
            this.folder = folder;
        }

        Path file(String kind) {
            return folder.resolve("rank-" + number + "." + kind);
        }

        List<String> passes() throws IOException {
            try {
                return Files.readAllLines(file("progress"));
            } catch (NoSuchFileException e) {
                return List.of();
            }
        }
    }

    /**
     * @param program selfckpt-job or plain-job
     * @param folder where it writes; the user's
     * @param processes how many
     * @param sizeBytes memory of each
     */
    public DemoJob(Path program, JobUser user, Path folder, int processes, long sizeBytes) {
        this.program = program;
        this.user = user;
        this.folder = folder;
        this.sizeBytes = sizeBytes;
        for (int rank = 0; rank < processes; rank++) {
            ranks.add(new Rank(rank, folder));
        }
    }

    public JobUser user() {
        return user;
    }

    /** Bytes of memory in all. */
    public long totalBytes() {
        return sizeBytes * ranks.size();
    }

    /** The job's list of processes, as a source's configuration has it. */
    public String ranksToml() {
        List<String> entries = ranks.stream()
                .map(rank -> "{rank = " + rank.number + ", pid_file = \"" + rank.file("pid") + "\"}")
                .toList();
        return "[" + String.join(", ", entries) + "]";
    }

    /**
     * Starts all processes in a node and waits until each has made some passes.
     *
     * @param launcher ppmr-launch
     */
    public void start(Node node, Path launcher, int passes) throws IOException, InterruptedException {
        for (Rank rank : ranks) {
            List<String> words = new ArrayList<>(List.of(
                    launcher.toString(),
                    "--uid",
                    Integer.toString(user.uid()),
                    "--gid",
                    Integer.toString(user.gid()),
                    "--"));
            words.addAll(computation(rank));
            words.addAll(List.of(
                    "--out",
                    rank.file("out").toString(),
                    "--progress",
                    rank.file("progress").toString(),
                    "--pace",
                    Integer.toString(PACE_MS)));
            rank.original = node.startDetached(rank.file("pid"), words);
        }
        boolean begun = until(START_LIMIT, () -> ranks.stream().allMatch(rank -> count(rank) >= passes));
        if (!begun) {
            throw new IOException("the processes of " + program.getFileName() + " in " + node.name() + " have not made "
                    + passes + " passes within " + START_LIMIT);
        }
    }

    private List<String> computation(Rank rank) {
        List<String> words = new ArrayList<>(List.of(
                program.toString(),
                "--size",
                Long.toString(sizeBytes),
                "--passes",
                Integer.toString(PASSES),
                "--seed",
                Integer.toString(FIRST_SEED + rank.number)));
        return words;
    }

    private static int count(Rank rank) {
        try {
            return rank.passes().size();
        } catch (IOException e) {
            return 0;
        }
    }

    /** Remembers how far each process is, just before it is moved. */
    public void markBefore() throws IOException {
        for (Rank rank : ranks) {
            rank.passesBefore = rank.passes();
        }
    }

    /** How many passes the slowest and the fastest have made. */
    public String passes() throws IOException {
        int least = Integer.MAX_VALUE;
        int most = 0;
        for (Rank rank : ranks) {
            least = Math.min(least, rank.passes().size());
            most = Math.max(most, rank.passes().size());
        }
        return (least == most ? "" + least : least + " to " + most) + " of " + PASSES;
    }

    /**
     * Looks, just after the move, how far each is and whether its process now runs in the other node.
     *
     * @param pids of each rank, as that node sees them
     */
    public void markMoved(Node there, Map<Integer, List<Integer>> pids) throws IOException, InterruptedException {
        for (Rank rank : ranks) {
            rank.passesAtEnd = rank.passes().size();
        }
        List<String> script =
                new ArrayList<>(List.of("sh", "-c", "for pid; do readlink /proc/$pid/exe || echo gone; done", "sh"));
        pids.values().forEach(ofRank -> ofRank.forEach(pid -> script.add(pid.toString())));
        List<String> programs =
                there.run(START_LIMIT, script.toArray(String[]::new)).lines().toList();
        int next = 0;
        for (Map.Entry<Integer, List<Integer>> ofRank : pids.entrySet()) {
            List<String> running =
                    programs.subList(next, next + ofRank.getValue().size());
            next += running.size();
            ranks.get(ofRank.getKey()).runsThere = running.contains(program.toString());
        }
    }

    /** Starts computing what an undisturbed run would end with. */
    public void startExpectations() throws IOException {
        for (Rank rank : ranks) {
            List<String> words = computation(rank);
            words.add("--expect");
            rank.expectation = new ProcessBuilder(words)
                    .redirectError(ProcessBuilder.Redirect.DISCARD)
                    .redirectOutput(rank.file("expected").toFile())
                    .start();
            rank.expectation.getOutputStream().close();
        }
    }

    /** Waits until all have ended and says what became of each. */
    public List<DemoReport.ProcessResult> finish(Duration limit) throws IOException, InterruptedException {
        until(limit, () -> ranks.stream()
                .allMatch(rank -> Files.exists(rank.file("out")) && !rank.expectation.isAlive()));
        List<DemoReport.ProcessResult> results = new ArrayList<>();
        ProcessTable table = new ProcessTable();
        for (Rank rank : ranks) {
            results.add(new DemoReport.ProcessResult(rank.number, continued(rank, table), resultOk(rank)));
        }
        return results;
    }

    private static boolean continued(Rank rank, ProcessTable table) throws IOException {
        List<String> passes = rank.passes();
        boolean numbered = passes.size() == PASSES;
        for (int i = 0; numbered && i < passes.size(); i++) {
            numbered = passes.get(i).startsWith("pass " + i + " ");
        }
        int before = rank.passesBefore.size();
        return numbered
                && before > 0
                && rank.passesAtEnd >= before
                && rank.passesAtEnd < PASSES
                && passes.subList(0, before).equals(rank.passesBefore)
                && rank.runsThere
                && !table.isAlive(rank.original);
    }

    private static boolean resultOk(Rank rank) throws IOException {
        if (!Files.exists(rank.file("out")) || rank.expectation.isAlive() || rank.expectation.exitValue() != 0) {
            return false;
        }
        String expected = Files.readString(rank.file("expected")).strip();
        return !expected.isEmpty()
                && expected.equals(Files.readString(rank.file("out")).strip());
    }

    /** Ends what computes outside of the nodes; what runs in them ends with them. */
    public void stopExpectations() {
        for (Rank rank : ranks) {
            Optional.ofNullable(rank.expectation).ifPresent(Process::destroyForcibly);
        }
    }

    private static boolean until(Duration limit, BooleanSupplier condition) throws InterruptedException {
        long deadlineNs = System.nanoTime() + limit.toNanos();
        while (!condition.getAsBoolean()) {
            if (System.nanoTime() - deadlineNs > 0) {
                return false;
            }
            LockSupport.parkNanos(LOOK_NS);
            if (Thread.interrupted()) {
                throw new InterruptedException("interrupted while the job was waited for");
            }
        }
        return true;
    }

    /** Where the job writes. */
    public Path folder() {
        return folder;
    }
}
