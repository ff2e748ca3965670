package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.testbed.Patience;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Tests a real Slurm with the batch script of conf/slurm-job.sh. An ordinary user's job of four tasks is moved to its
 * spare node while it computes. It ends with the right result.
 */
@Timeout(value = 120, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class SlurmIT {
    private static final Logger LOG = LoggerFactory.getLogger(SlurmIT.class);
    private static final Path SCRIPT = Path.of(System.getProperty("ppmr.home"), "ppmr-slurm/conf/slurm-job.sh");
    private static final int RANKS = 4;
    private static final int PASSES = 60;
    private static final String COMPUTATION = " --size 8000000 --passes " + PASSES + " --seed ";

    /** Prints the tracer of each moved rank. See proc_pid_status(5). */
    private static final String TRACERS = "for p in $(ps -eo pid,args | awk '/selfckpt-job --[r]/ {print $1}');"
            + " do grep TracerPid: /proc/$p/status; done; true";

    private static SlurmCluster cluster;

    private Path folder;
    private String job;

    @BeforeAll
    static void startCluster() throws Exception {
        Assumptions.assumeTrue(
                Files.getAttribute(Path.of("/proc/self"), "unix:uid").equals(0), "needs root: nodes are namespaces");
        List<String> missing = SlurmCluster.PROGRAMS.stream()
                .filter(program -> SlurmCluster.find(program).isEmpty())
                .toList();
        Assumptions.assumeTrue(
                missing.isEmpty(),
                missing + " are not installed (packages slurmctld, slurmd, slurm-client, munge; ./ppmr setup)");
        cluster = SlurmCluster.start();
    }

    @AfterAll
    static void endCluster() throws Exception {
        if (cluster != null) {
            cluster.close();
        }
    }

    @AfterEach
    void endJob() throws Exception {
        if (job != null) {
            cluster.slurm("scancel", "--quiet", "--full", job);
            cluster.await("end of job " + job, () -> !state().matches("(RUNNING|COMPLETING|RESIZING|PENDING)"));
        }
        // Not RESUME, which also has the controller wait for the node's next sign of life: up to minutes.
        if (nodeState("n1").endsWith("DRAIN")) {
            cluster.slurm("scontrol", "update", "NodeName=n1", "State=UNDRAIN");
        }
        cluster.await("node that is free again", () -> nodeState("n1").equals("IDLE"));
    }

    /** Submits the documented script, with this test's program and paths, and waits until its ranks compute. */
    private void submit(String name, String options, String program) throws Exception {
        submit(name, options, program, "n1");
    }

    private void submit(String name, String options, String program, String computing, String... batchOptions)
            throws Exception {
        folder = cluster.userFolder(name);
        String text = Files.readString(SCRIPT);
        for (String placeholder : List.of("\nppmr slurm-run", "--checkpointer criu", "./solver input.dat")) {
            assertTrue(text.contains(placeholder), () -> SCRIPT + " has no " + placeholder);
        }
        text = text.replace("\nppmr slurm-run", "\n" + cluster.ppmr() + " slurm-run")
                .replace(
                        "--checkpointer criu",
                        "--checkpointer blcr --announcements "
                                + cluster.local().resolve("announced") + " --socket "
                                + cluster.sourceSocket() + " " + options)
                .replace("./solver input.dat", program);
        Path script = Files.writeString(folder.resolve("job.sh"), text);
        List<String> words = new ArrayList<>(
                List.of("sbatch", "--parsable", "--output=" + folder.resolve("batch.out"), "--chdir=" + folder));
        words.addAll(List.of(batchOptions));
        words.add(script.toString());
        job = cluster.slurmAsUser(words.toArray(String[]::new));
        cluster.await(
                "computing ranks",
                () -> batchOutput().contains(RANKS + " ranks run on " + computing + "; spare is n0")
                        && passes(0) > 2
                        && passes(RANKS - 1) > 2);
    }

    /** The self-checkpointing job, a seed for each rank. */
    private static String computing() {
        return "bash -c 'exec " + cluster.bin() + "/selfckpt-job" + COMPUTATION
                + "$SLURM_PROCID --pace 300 --out out.$SLURM_PROCID --progress progress.$SLURM_PROCID'";
    }

    private String batchOutput() throws IOException {
        return Files.readString(folder.resolve("batch.out"));
    }

    private int passes(int rank) throws IOException {
        return Files.readAllLines(folder.resolve("progress." + rank)).size();
    }

    private String field(String name) throws IOException, InterruptedException {
        for (String word : cluster.slurm("scontrol", "show", "job", job).split("\\s+", -1)) {
            if (word.startsWith(name + "=")) {
                return word.substring(name.length() + 1);
            }
        }
        throw new IOException("job " + job + " has no " + name);
    }

    private String state() throws IOException, InterruptedException {
        return field("JobState");
    }

    /**
     * Returns a state such as IDLE, MIXED+DRAIN. It uses scontrol, because sinfo may continue to report a released node
     * as mixed.
     */
    private static String nodeState(String node) throws IOException, InterruptedException {
        return cluster.slurm("scontrol", "--oneliner", "show", "node", node).replaceAll("(?s).* State=(\\S+) .*", "$1");
    }

    private void awaitMoved() throws Exception {
        cluster.await("move in what the batch script prints: " + batchOutput(), () -> batchOutput()
                .contains(RANKS + " ranks have moved from n1 to n0"));
        for (int rank = 0; rank < RANKS; rank++) {
            assertTrue(passes(rank) < PASSES, batchOutput());
        }
    }

    private void assertFinished() throws Exception {
        cluster.await("end of job " + job, () -> !state().matches("RUNNING|COMPLETING"));
        LOG.info("the job's final state:\n{}", cluster.slurm("scontrol", "show", "job", job));
        LOG.info("jobcomp/filetxt:\n{}", Files.readString(cluster.folder().resolve("jobcomp")));
        LOG.info("the batch script's output:\n{}", batchOutput());
        assertEquals("COMPLETED", state(), batchOutput());
        assertEquals("0:0", field("ExitCode"), batchOutput());
        for (int rank = 0; rank < RANKS; rank++) {
            assertTrue(batchOutput().contains("rank " + rank + " has ended with status 0\n"), batchOutput());
            assertEquals(
                    expected(rank),
                    Files.readString(folder.resolve("out." + rank)).strip());
            assertPassesInOrder(rank);
        }
    }

    private static String expected(int rank) throws Exception {
        List<String> words = new ArrayList<>(List.of(cluster.bin().resolve("selfckpt-job") + ""));
        words.addAll(List.of((COMPUTATION + rank + " --expect").strip().split(" ", -1)));
        Process process = new ProcessBuilder(words).start();
        process.getOutputStream().close();
        assertTrue(process.waitFor(Patience.of(60), TimeUnit.SECONDS));
        return new String(process.getInputStream().readAllBytes(), java.nio.charset.StandardCharsets.UTF_8).strip();
    }

    /** The rank continued and did not restart. No pass is missing, and no pass occurs twice. */
    private void assertPassesInOrder(int rank) throws IOException {
        List<String> passes = Files.readAllLines(folder.resolve("progress." + rank));
        assertEquals(PASSES, passes.size());
        for (int i = 0; i < PASSES; i++) {
            assertTrue(passes.get(i).startsWith("pass " + i + " "), passes.toString());
        }
    }

    @Tag("soak")
    @Test
    void shouldFinishRightWhenTheBatchScriptIsSignalled() throws Exception {
        submit("signalled", "--drain-check 0", computing());
        IOException refused = assertThrows(
                IOException.class,
                () -> cluster.onComputeNodeAsUser(
                        cluster.ppmr().toString(),
                        "migrate",
                        "--socket",
                        cluster.sourceSocket().toString(),
                        "other"));
        assertTrue(refused.getMessage().contains("may not control this service"), refused.getMessage());
        cluster.slurmAsUser("scancel", "--batch", "--signal=USR2", job);
        awaitMoved();
        assertEquals("n[0-1]", field("NodeList"));
        assertFinished();
    }

    @Test
    void shouldFinishRightAndGiveTheNodeBackWhenItsNodeIsSetToDrain() throws Exception {
        submit("drained", "--drain-check 2", computing());
        cluster.slurm("scontrol", "update", "NodeName=n1", "State=DRAIN", "Reason=test");
        awaitMoved();
        cluster.await("drained node while the job runs", () -> nodeState("n1").equals("IDLE+DRAIN"));
        assertEquals("RUNNING", state(), batchOutput());
        assertEquals("n0", field("NodeList"));
        assertFinished();
    }

    @Tag("soak")
    @Test
    void shouldMoveTheRanksOfOneNodeWhenSeveralHaveRanks() throws Exception {
        submit(
                "several",
                "--drain-check 2",
                computing(),
                "n1, n2",
                "--partition=three",
                "--nodes=3",
                "--ntasks-per-node=2");
        cluster.slurm("scontrol", "update", "NodeName=n1", "State=DRAIN", "Reason=test");
        cluster.await("move in what the batch script prints", () -> batchOutput()
                .contains("2 ranks have moved from n1 to n0"));
        assertEquals("n[0-2]", field("NodeList"), "step 0 still has ranks on n2");
        assertFinished();
        assertFalse(batchOutput().contains("from n2"), batchOutput());
    }

    @Tag("soak")
    @Test
    void shouldMoveTheRanksWhenTheSourcesHealthCommandSeesTheDrain() throws Exception {
        submit("health", "--drain-check 0", computing());
        Path asked = Files.createFile(cluster.folder().resolve("health-on"));
        try {
            cluster.slurm("scontrol", "update", "NodeName=n1", "State=DRAIN", "Reason=test");
            awaitMoved();
        } finally {
            Files.delete(asked);
        }
        String log = Files.readString(cluster.folder().resolve("source.err"));
        assertTrue(log.contains("requested by the health command"), log);
    }

    @Tag("soak")
    @Test
    void shouldEndTheMovedRanksWhenAnOperatorHasMovedThemAndTheJobIsCancelled() throws Exception {
        submit("cancelled", "--drain-check 0", computing().replace("--passes " + PASSES, "--passes " + 100 * PASSES));
        Path socket = cluster.sourceSocket();
        cluster.onComputeNode(
                cluster.ppmr().toString(), "migrate", "--socket", socket.toString(), "slurm-" + job + ".0");
        awaitMoved();
        // The watcher of a rank traces it. srun(1) has the same words on its command line before any watcher exists.
        cluster.await(
                "watched ranks",
                () -> cluster.slurm("sh", "-c", TRACERS)
                                .lines()
                                .filter(line -> !line.endsWith("\t0"))
                                .count()
                        >= RANKS);
        cluster.slurmAsUser("scancel", job);
        cluster.await("end of the moved ranks", () -> !cluster.slurm("ps", "-eo", "args")
                .contains("selfckpt-job --r"));
        cluster.await("end of job " + job, () -> state().equals("CANCELLED"));
        assertFalse(Files.exists(folder.resolve("out.0")), batchOutput());
    }
}
