package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.pods.PodStatus;
import io.ppmr.pods.testbed.MpiRing;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Patience;
import io.ppmr.testbed.Testbed;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Jobs of Debian's Open MPI and MPICH, unmodified, whose ranks are in pods of three nodes, while these pods move. */
@Timeout(value = 300, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
@Tag("soak")
class MpiMoveIT {
    private static final int NODES = 3;
    private static final int PAUSE_US = 2000;
    private static final int LATEST_MS = 700;
    private static final int MANY_MOVES = 100;
    private static final int ROLLBACK_EACH = 5;
    private static final Duration LONGEST = Duration.ofHours(1);
    private static final int MPICH_RUNS = 12;
    /** A run that has not ended so long after its result hangs. */
    private static final long FINALIZE_S = Patience.of(20);

    private static final Duration HPCC_LIMIT = Duration.ofMinutes(10);
    private static final Path HPCC = Path.of("/usr/bin/hpcc");
    private static final Path HPCC_INPUT = Path.of("/usr/share/doc/hpcc/examples/_hpccinf.txt");

    private static Testbed testbed;
    private static MpiRing ring;
    private static final List<MovingNode> NODE = new ArrayList<>();
    private final List<Process> started = new ArrayList<>();

    @BeforeAll
    static void start() throws Exception {
        MovingNode.assumePossible();
        Optional<String> missing = MpiRing.whyNot("openmpi", "mpich");
        Assumptions.assumeTrue(missing.isEmpty(), () -> missing.get() + " (./ppmr test installs it)");
        ring = MpiRing.create("openmpi", "mpich");
        testbed = Testbed.create("mpimove");
        for (int number = 1; number <= NODES; number++) {
            MovingNode node = new MovingNode(testbed, number, ring.template());
            NODE.add(node);
            if (number > 1) {
                MovingNode.connect(NODE.get(0), node);
            }
            node.startSource();
        }
        NODE.get(1).startTarget("");
        NODE.get(2).startTarget("");
    }

    @AfterAll
    static void end() throws Exception {
        if (testbed != null) {
            testbed.close();
        }
        if (ring != null) {
            ring.close();
        }
    }

    @AfterEach
    void putInOrder() throws Exception {
        started.forEach(Process::destroyForcibly);
        Files.deleteIfExists(stop());
        for (MovingNode node : NODE) {
            Files.deleteIfExists(node.folder().resolve("fail"));
            for (PodStatus pod : node.list("source")) {
                PpmrCommand.run("pod", "stop", "--socket", node.socket().toString(), pod.name());
            }
        }
    }

    /** Returns the file that ends the job as soon as it is there. Pods see it. */
    private static Path stop() {
        return ring.folder().resolve("stop");
    }

    private static List<String> pods() throws Exception {
        List<String> pods = new ArrayList<>();
        for (int number = 1; number <= NODES; number++) {
            NODE.get(number - 1).runPodAt("ring" + number, "10.20.0.1" + number, "sleep", "infinity");
            pods.add("1/ring" + number + " " + NODE.get(number - 1).socket());
        }
        return pods;
    }

    /** Starts the job on the first node, outside of its pod. A file gets its output. */
    private Path run(String mpi, List<String> pods) throws IOException {
        Path output = Files.createTempFile(testbed.folder(), "mpirun", ".log");
        List<String> all = new ArrayList<>(
                mpi.equals("mpich") ? ring.mpich(pods, NODE.get(0).address(), LONGEST) : ring.openMpi(pods));
        all.addAll(List.of(ring.program(mpi), "1", "" + PAUSE_US, stop().toString()));
        started.add(new ProcessBuilder(NODE.get(0).words(all.toArray(String[]::new)))
                .redirectErrorStream(true)
                .redirectOutput(output.toFile())
                .start());
        return output;
    }

    private static long reports(Path output) throws IOException {
        return Files.readString(output)
                .lines()
                .filter(line -> line.startsWith("round"))
                .count();
    }

    /** Waits until two hundred more rounds were made. */
    private void requireMoreRounds(Path output) throws Exception {
        long wanted = reports(output) + 2;
        Conditions.until(MovingNode.LIMIT, "the ranks exchange blocks", () -> {
            if (!started.get(0).isAlive()) {
                throw new IOException("mpirun has ended: " + Files.readString(output));
            }
            return reports(output) >= wanted;
        });
    }

    private static void move(String pod, int from, int to) throws Exception {
        PpmrCommand moved = NODE.get(from - 1).move(pod, NODE.get(to - 1));
        assertEquals(0, moved.exitCode(), moved.said());
    }

    private void moveAtARandomMoment(String pod, int from, int to, Random random, Path output) throws Exception {
        LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(random.nextInt(LATEST_MS)));
        move(pod, from, to);
        requireMoreRounds(output);
    }

    private void rollBackAtARandomMoment(String pod, int from, int to, Random random, Path output) throws Exception {
        LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(random.nextInt(LATEST_MS)));
        Path fail = Files.createFile(NODE.get(to - 1).folder().resolve("fail"));
        PpmrCommand failed = NODE.get(from - 1).move(pod, NODE.get(to - 1));
        assertNotEquals(0, failed.exitCode(), failed.said());
        Files.delete(fail);
        requireMoreRounds(output);
    }

    private static Random random() {
        long seed = System.nanoTime();
        System.out.println("seed " + seed);
        return new Random(seed);
    }

    /** Has the job end, and compares its result with that of as many rounds without pods. */
    private void requireTheRightResult(String mpi, List<String> pods, Path output, String moves) throws Exception {
        MpiRing.Result result = result(output);
        if (mpi.equals("openmpi")) {
            // Some runs of Debian's MPICH hang in MPI_Finalize, moved or not.
            assertTrue(started.get(0).waitFor(MpiRing.LIMIT.toSeconds(), TimeUnit.SECONDS), Files.readString(output));
            assertEquals(0, started.get(0).exitValue(), Files.readString(output));
        }
        System.out.printf(
                "figure: %s of pods of an MPI job (%s): longest gap of a rank %.3f s%n",
                moves, mpi, result.longestGapSeconds());
        assertEquals(ring.apart(pods, result.rounds()).sum(), result.sum());
    }

    /** Ends the job, and returns its results before MPI_Finalize. */
    private MpiRing.Result result(Path output) throws Exception {
        Files.createFile(stop());
        Conditions.until(MpiRing.LIMIT, "the result is out", () -> {
            String said = Files.readString(output);
            if (!started.get(0).isAlive() && !said.contains("result")) {
                throw new IOException("the job has ended without a result: " + said);
            }
            return said.contains("longest gap");
        });
        return MpiRing.Result.of(Files.readString(output));
    }

    @ParameterizedTest
    @ValueSource(strings = {"openmpi", "mpich"})
    void shouldEndWithTheRightResultWhenPodsOfItsRanksAreMovedAndRolledBack(String mpi) throws Exception {
        List<String> pods = pods();
        Path output = run(mpi, pods);
        requireMoreRounds(output);
        Random random = random();
        moveAtARandomMoment("1/ring2", 2, 3, random, output);
        rollBackAtARandomMoment("1/ring3", 3, 2, random, output);
        moveAtARandomMoment("1/ring3", 3, 2, random, output);
        moveAtARandomMoment("1/ring2", 3, 2, random, output);
        requireTheRightResult(mpi, pods, output, "three moves and a rollback");
    }

    @ParameterizedTest
    @ValueSource(strings = {"openmpi", "mpich"})
    @Timeout(value = 3600, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
    void shouldEndWithTheRightResultWhenPodsOfItsRanksAreMovedAHundredTimes(String mpi) throws Exception {
        List<String> pods = pods();
        Path output = run(mpi, pods);
        requireMoreRounds(output);
        Random random = random();
        int[] at = {0, 1, 2, 3};
        int rollbacks = 0;
        for (int moves = 0; moves < MANY_MOVES; moves++) {
            int pod = 2 + random.nextInt(2);
            int to = 5 - at[pod];
            if (moves % ROLLBACK_EACH == 0) {
                rollBackAtARandomMoment("1/ring" + pod, at[pod], to, random, output);
                rollbacks++;
            }
            moveAtARandomMoment("1/ring" + pod, at[pod], to, random, output);
            at[pod] = to;
        }
        requireTheRightResult(mpi, pods, output, MANY_MOVES + " moves and " + rollbacks + " rollbacks");
    }

    /** Runs of MPICH of which one pod moves, and as many controls, in turn: how many of each hang is printed. */
    @Test
    @Timeout(value = 3600, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
    void shouldHaveTheRightResultBeforeFinalizeWhenManyRunsOfMpichAreMoved() throws Exception {
        Random random = random();
        int[] hung = {0, 0};
        for (int run = 0; run < 2 * MPICH_RUNS; run++) {
            boolean moved = run % 2 == 1;
            List<String> pods = pods();
            Path output = run("mpich", pods);
            requireMoreRounds(output);
            if (moved) {
                moveAtARandomMoment("1/ring2", 2, 3, random, output);
            } else {
                requireMoreRounds(output);
            }
            MpiRing.Result result = result(output);
            assertEquals(ring.apart(pods, result.rounds()).sum(), result.sum());
            hung[run % 2] += started.get(0).waitFor(FINALIZE_S, TimeUnit.SECONDS) ? 0 : 1;
            putInOrder();
            started.clear();
        }
        System.out.printf(
                "figure: MPICH hung in MPI_Finalize in %d of %d moved runs, and in %d of as many that were not moved%n",
                hung[1], MPICH_RUNS, hung[0]);
    }

    /**
     * A run of the HPC Challenge benchmark.
     *
     * @param output what it has written
     * @param moves the number of moves of its ranks' pods during the run
     */
    private record Challenge(String output, int moves, double seconds) {
        /** Returns a figure of the summary. */
        String figure(String name) {
            return output.lines()
                    .filter(line -> line.startsWith(name + "="))
                    .findFirst()
                    .orElseThrow();
        }

        /** Uses its own checks of HPL, PTRANS, FFT and RandomAccess. */
        void requireItsOwnChecks() {
            assertTrue(output.contains("End of HPC Challenge tests") && output.contains("\nSuccess=1\n"), output);
            assertTrue(output.lines().filter(line -> line.contains("PASSED")).count() > 2, output);
            assertEquals(
                    List.of(),
                    output.lines()
                            .filter(line -> line.contains("FAILED") || line.contains("(failed)"))
                            .toList());
            assertEquals(
                    List.of(),
                    output.lines()
                            .filter(line -> line.contains("failed residual checks") && !line.matches(" *0 tests.*"))
                            .toList());
        }
    }

    /** Runs a small problem over the pods, and moves the second and the third pod in turn until it ends. */
    private Challenge challenge(boolean moving) throws Exception {
        List<String> pods = pods();
        PodStatus first = NODE.get(0).list("source").get(0);
        Files.writeString(
                NODE.get(0).within(first, "/tmp/hpccinf.txt"),
                Files.readString(HPCC_INPUT)
                        .replaceAll("(?m)^1000( +Ns)", "600$1")
                        .replaceAll("(?m)^80( +NBs)", "40$1")
                        .replaceAll("(?m)^2( +Qs)", "3$1"));
        List<String> words = new ArrayList<>(ring.openMpi(pods));
        words.addAll(List.of("--wdir", "/tmp", "--mca", "mpi_yield_when_idle", "1", HPCC.toString()));
        Path said = Files.createTempFile(testbed.folder(), "hpcc", ".log");
        long begunNs = System.nanoTime();
        Process job = new ProcessBuilder(NODE.get(0).words(words.toArray(String[]::new)))
                .redirectErrorStream(true)
                .redirectOutput(said.toFile())
                .start();
        started.add(job);
        Path output = NODE.get(0).within(first, "/tmp/hpccoutf.txt");
        // Before that, mpirun still connects to the pods' first places.
        Conditions.until(HPCC_LIMIT, "its ranks compute: " + Files.readString(said), () -> Files.exists(output));
        int moves = 0;
        int[] at = {0, 1, 2, 3};
        while (moving && !job.waitFor(1, TimeUnit.SECONDS)) {
            int pod = 2 + moves % 2;
            int to = 5 - at[pod];
            PpmrCommand moved = NODE.get(at[pod] - 1).move("1/ring" + pod, NODE.get(to - 1));
            // Its daemons may end during the check.
            assertTrue(moved.exitCode() == 0 || job.waitFor(60, TimeUnit.SECONDS), moved.said());
            moves += moved.exitCode() == 0 ? 1 : 0;
            at[pod] = moved.exitCode() == 0 ? to : at[pod];
        }
        assertTrue(job.waitFor(HPCC_LIMIT.toSeconds(), TimeUnit.SECONDS), Files.readString(said));
        assertEquals(0, job.exitValue(), Files.readString(said));
        double seconds = (System.nanoTime() - begunNs) / 1e9;
        return new Challenge(Files.readString(output), moves, seconds);
    }

    /**
     * All its sections are computed by ranks of which some move, in the number of runs that a hundred moves need. Their
     * figures are printed beside an unmoved run's.
     */
    @Test
    @Timeout(value = 7200, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
    void shouldPassItsOwnChecksWhenPodsOfTheHpcChallengeAreMoved() throws Exception {
        Assumptions.assumeTrue(Files.isExecutable(HPCC), "needs hpcc (./ppmr test installs it)");
        Challenge unmoved = challenge(false);
        unmoved.requireItsOwnChecks();
        putInOrder();
        for (int moves = 0; moves < MANY_MOVES; ) {
            Challenge moved = challenge(true);
            moved.requireItsOwnChecks();
            moves += moved.moves();
            for (String figure : List.of("HPL_Tflops", "MPIRandomAccess_GUPs", "PTRANS_GBs", "MPIFFT_Gflops")) {
                System.out.printf("figure: hpcc unmoved %s, moved %s%n", unmoved.figure(figure), moved.figure(figure));
            }
            System.out.printf(
                    "figure: hpcc unmoved %.0f s; moved %d times %.0f s%n",
                    unmoved.seconds(), moved.moves(), moved.seconds());
            putInOrder();
        }
    }
}
