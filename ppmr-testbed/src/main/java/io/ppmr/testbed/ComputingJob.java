package io.ppmr.testbed;

import io.ppmr.checkpoint.JobUser;
import io.ppmr.checkpoint.ProcessTable;
import io.ppmr.linux.Command;
import io.ppmr.linux.ProcessIdentity;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A job of several processes that compute in passes over their memory and write down each pass. It is for one thread.
 *
 * <p>A process continued, and did not restart, if its passes are numbered without gap or repetition across the move.
 */
public final class ComputingJob {
    private static final int FIRST_SEED = 1000;
    private static final Duration LIMIT = Patience.of(Duration.ofSeconds(60));

    private static final Logger LOG = LoggerFactory.getLogger(ComputingJob.class);

    private final Path program;
    private final List<String> options;
    private final JobUser user;
    private final long sizeBytes;
    private int passes;
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
     * @param program selfckpt-job, plain-job or shaped-job
     * @param folder the folder of its output, which belongs to the user
     * @param processes how many
     * @param sizeBytes memory of each
     * @param options further ones of the program
     */
    public ComputingJob(Path program, JobUser user, Path folder, int processes, long sizeBytes, String... options) {
        this.program = program;
        this.options = List.of(options);
        this.user = user;
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

    /** The job as a table of a source's configuration. */
    public String toml(String name, String checkpointer) {
        List<String> entries = ranks.stream()
                .map(rank -> "{rank = " + rank.number + ", pid_file = \"" + pidFile(rank.number) + "\"}")
                .toList();
        return """
                [jobs.%s]
                user = %d
                group = %d
                checkpointer = "%s"
                ranks = [%s]
                """.formatted(name, user.uid(), user.gid(), checkpointer, String.join(", ", entries));
    }

    /** Returns the file with the PID of a rank's process, as its first node sees it. */
    public Path pidFile(int rank) {
        return ranks.get(rank).file("pid");
    }

    /**
     * Starts all processes in a node, once more if they ran before, and waits until each has made some passes.
     *
     * @param launcher ppmr-launch
     * @param passesDue how many each makes in all
     * @param paceMs at least so long for a pass
     */
    public void start(TestNode node, Path launcher, int passesDue, int paceMs, int passesMade) throws Exception {
        passes = passesDue;
        for (Rank rank : ranks) {
            Files.deleteIfExists(rank.file("progress"));
            List<String> words = Command.words("%s --uid %s --gid %s --", launcher, user.uid(), user.gid());
            words.addAll(computation(rank));
            words.addAll(
                    Command.words("--out %s --pace %s --progress %s", rank.file("out"), paceMs, rank.file("progress")));
            rank.original = node.startDetached(rank.file("pid"), words);
        }
        Conditions.until(
                LIMIT,
                "the processes of " + program.getFileName() + " in " + node.name() + " have made " + passesMade
                        + " passes",
                () -> ranks.stream().allMatch(rank -> count(rank) >= passesMade));
    }

    private List<String> computation(Rank rank) {
        List<String> words = Command.words(
                "%s --size %s --passes %s --seed %s", program, sizeBytes, passes, FIRST_SEED + rank.number);
        words.addAll(options);
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

    /** Describes the passes that the slowest and the fastest have made. */
    public String passes() throws IOException {
        int least = Integer.MAX_VALUE;
        int most = 0;
        for (Rank rank : ranks) {
            least = Math.min(least, rank.passes().size());
            most = Math.max(most, rank.passes().size());
        }
        return (least == most ? "" + least : least + " to " + most) + " of " + passes;
    }

    /**
     * Looks, just after the move, how far each is and whether its process now runs in the other node.
     *
     * @param pids of each rank, as that node sees them
     */
    public void markMoved(TestNode there, Map<Integer, List<Integer>> pids) throws IOException, InterruptedException {
        for (Rank rank : ranks) {
            rank.passesAtEnd = rank.passes().size();
        }
        List<String> script =
                new ArrayList<>(List.of("sh", "-c", "for pid; do readlink /proc/$pid/exe || echo gone; done", "sh"));
        pids.values().forEach(ofRank -> ofRank.forEach(pid -> script.add(pid.toString())));
        List<String> programs =
                there.run(LIMIT, script.toArray(String[]::new)).lines().toList();
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

    /**
     * The outcome of a process.
     *
     * @param continued whether it continued where it was stopped, in the other node, and the original is gone
     * @param resultOk whether it ended with what an undisturbed run ends with
     */
    public record ProcessOutcome(int rank, boolean continued, boolean resultOk) {}

    /** Waits until all processes ended, for the limit at most, and returns each one's outcome. */
    public List<ProcessOutcome> finish(Duration limit) throws Exception {
        try {
            Conditions.until(limit, "the job ended", () -> ranks.stream()
                    .allMatch(rank -> Files.exists(rank.file("out")) && !rank.expectation.isAlive()));
        } catch (IOException e) {
            LOG.debug("what has not ended has no right result: {}", e.getMessage());
        }
        List<ProcessOutcome> results = new ArrayList<>();
        ProcessTable table = new ProcessTable();
        for (Rank rank : ranks) {
            results.add(new ProcessOutcome(rank.number, continued(rank, table), resultOk(rank)));
        }
        return results;
    }

    private boolean continued(Rank rank, ProcessTable table) throws IOException {
        List<String> made = rank.passes();
        boolean numbered = made.size() == passes;
        for (int i = 0; numbered && i < made.size(); i++) {
            numbered = made.get(i).startsWith("pass " + i + " ");
        }
        int before = rank.passesBefore.size();
        return numbered
                && before > 0
                && rank.passesAtEnd >= before
                && rank.passesAtEnd < passes
                && made.subList(0, before).equals(rank.passesBefore)
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

    /** Ends the computations outside of the nodes. Processes in the nodes end with their nodes. */
    public void stopExpectations() {
        for (Rank rank : ranks) {
            Optional.ofNullable(rank.expectation).ifPresent(Process::destroyForcibly);
        }
    }
}
