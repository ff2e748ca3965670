package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.pods.testbed.MpiRing;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** MPI jobs of an ordinary user under a real Slurm. Their ranks are in pods on two nodes beside the spare. */
@Timeout(value = 300, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
@Tag("soak")
class SlurmMpiIT {
    private static final Path SCRIPT = Path.of(System.getProperty("ppmr.home"), "ppmr-slurm/conf/slurm-job.sh");
    private static final int PAUSE_US = 2000;
    /** Represents the two pods, of two ranks each. */
    private static final List<String> PODS = List.of("n1", "n2");

    private static SlurmCluster cluster;
    private static MpiRing ring;

    private Path folder;
    private String job;

    @BeforeAll
    static void startCluster() throws Exception {
        MovingNode.assumePossible();
        List<String> missing = SlurmCluster.PROGRAMS.stream()
                .filter(program -> SlurmCluster.find(program).isEmpty())
                .toList();
        Assumptions.assumeTrue(missing.isEmpty(), missing + " are not installed (./ppmr setup)");
        Optional<String> noMpi = MpiRing.whyNot("openmpi", "mpich");
        Assumptions.assumeTrue(noMpi.isEmpty(), () -> noMpi.get() + " (./ppmr setup)");
        ring = MpiRing.create("openmpi", "mpich");
        cluster = SlurmCluster.startWithPods(ring.template());
    }

    @AfterAll
    static void endCluster() throws Exception {
        if (cluster != null) {
            cluster.close();
        }
        if (ring != null) {
            ring.close();
        }
    }

    @AfterEach
    void endJob() throws Exception {
        if (job != null) {
            cluster.slurm("scancel", "--quiet", "--full", job);
            cluster.await("end of job " + job, () -> !state().matches("(RUNNING|COMPLETING|RESIZING|PENDING)"));
        }
        Files.deleteIfExists(stop());
        if (nodeState("n1").endsWith("DRAIN")) {
            cluster.slurm("scontrol", "update", "NodeName=n1", "State=UNDRAIN");
        }
        cluster.await("node that is free again", () -> nodeState("n1").equals("IDLE"));
    }

    /** Returns the file that ends the program as soon as it is there. Pods see it. */
    private static Path stop() {
        return ring.folder().resolve("stop");
    }

    /** Submits the documented script with an MPI's options in the place of a checkpointer. */
    private void submit(String name, String mpi, String mpirun, String program) throws Exception {
        folder = cluster.userFolder(name);
        String text = Files.readString(SCRIPT);
        String usual = "--checkpointer criu -- ./solver input.dat";
        assertTrue(text.contains(usual), () -> SCRIPT + " has no " + usual);
        text = text.replace("\nppmr slurm-run", "\n" + cluster.ppmr() + " slurm-run")
                .replace(
                        usual,
                        "--mpi " + mpi + " --mpirun " + mpirun + " --drain-check 2 --socket " + cluster.sourceSocket()
                                + " --target-socket " + cluster.targetSocket() + " -- " + program);
        Path script = Files.writeString(folder.resolve("job.sh"), text);
        job = cluster.slurmAsUser(
                "sbatch",
                "--parsable",
                "--output=" + folder.resolve("batch.out"),
                "--chdir=" + folder,
                "--partition=three",
                "--nodes=3",
                "--ntasks-per-node=2",
                script.toString());
    }

    private void submitRing(String name, String mpi, String mpirun) throws Exception {
        submit(name, mpi, mpirun, ring.program(mpi) + " 1 " + PAUSE_US + " " + stop());
        requireMoreRounds();
    }

    private String batchOutput() throws IOException {
        return Files.readString(folder.resolve("batch.out"));
    }

    private void requireMoreRounds() throws Exception {
        long before = rounds();
        cluster.await("blocks that are exchanged", () -> {
            assertFalse(batchOutput().contains("the job has ended"), batchOutput());
            return rounds() >= before + 2;
        });
    }

    private long rounds() throws IOException {
        return Files.exists(folder.resolve("batch.out"))
                ? batchOutput().lines().filter(line -> line.startsWith("round")).count()
                : 0;
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

    private static String nodeState(String node) throws IOException, InterruptedException {
        return cluster.slurm("scontrol", "--oneliner", "show", "node", node).replaceAll("(?s).* State=(\\S+) .*", "$1");
    }

    private void awaitEnd(String wanted) throws Exception {
        cluster.await("end of job " + job, () -> !state().matches("RUNNING|COMPLETING|RESIZING|PENDING"));
        assertEquals(wanted, state(), batchOutput());
        cluster.await("end of all pods", () -> cluster.pods().isEmpty());
    }

    /** Sets a node to drain while the ranks of its pod compute, and waits until they continue on the spare. */
    private void drainTheFirst() throws Exception {
        cluster.slurm("scontrol", "update", "NodeName=n1", "State=DRAIN", "Reason=test");
        cluster.await("move in what the batch script prints", () -> batchOutput()
                .contains("pod slurm-" + job + "-0 has left n1: it is kept on n0"));
        cluster.await("drained node while the job runs", () -> nodeState("n1").equals("IDLE+DRAIN"));
        requireMoreRounds();
        assertEquals("RUNNING", state(), batchOutput());
        assertEquals("n[0,2]", field("NodeList"), batchOutput());
        List<String> pods = new ArrayList<>(cluster.pods());
        assertEquals(List.of("n0: 65534/slurm-" + job + "-0", "n2: 65534/slurm-" + job + "-1"), pods, batchOutput());
        Files.createFile(stop());
    }

    private void requireTheRightResult() throws Exception {
        MpiRing.Result result = MpiRing.Result.of(batchOutput());
        System.out.printf(
                "figure: a pod of an MPI job under Slurm moves by drain: longest gap of a rank %.3f s%n",
                result.longestGapSeconds());
        assertEquals(ring.apart(PODS, result.rounds()).sum(), result.sum());
    }

    @Test
    void shouldEndWithTheRightResultWhenANodeOfAnOpenMpiJobIsSetToDrain() throws Exception {
        submitRing("openmpi", "openmpi", "mpirun.openmpi");
        drainTheFirst();
        awaitEnd("COMPLETED");
        assertEquals("0:0", field("ExitCode"), batchOutput());
        requireTheRightResult();
    }

    /** Some runs of Debian's MPICH hang in MPI_Finalize, moved or not, when the result is out. */
    @Test
    void shouldHaveTheRightResultWhenANodeOfAnMpichJobIsSetToDrain() throws Exception {
        // The job's folder is not in the pods.
        submitRing("mpich", "mpich", "mpiexec.hydra --launcher=-wdir --launcher=/tmp");
        drainTheFirst();
        cluster.await("result", () -> batchOutput().contains("longest gap"));
        requireTheRightResult();
        cluster.slurmAsUser("scancel", "--quiet", job);
        cluster.await("end of job " + job, () -> !state().matches("RUNNING|COMPLETING|RESIZING"));
        cluster.await("end of all pods", () -> cluster.pods().isEmpty());
    }

    @Test
    void shouldLeaveNoPodWhenTheJobIsCancelled() throws Exception {
        submitRing("cancelled", "openmpi", "mpirun.openmpi");
        assertEquals(2, cluster.pods().size());
        cluster.slurmAsUser("scancel", job);
        awaitEnd("CANCELLED");
    }

    @Test
    void shouldLeaveNoPodAndHaveItsStatusWhenTheProgramFails() throws Exception {
        submit("failing", "openmpi", "mpirun.openmpi", "/bin/false");
        awaitEnd("FAILED");
        assertNotEquals("0:0", field("ExitCode"), batchOutput());
        assertTrue(batchOutput().contains("the launcher has ended with status 1"), batchOutput());
    }
}
