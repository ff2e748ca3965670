package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.ppmr.pods.testbed.BridgedNode;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Testbed;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The part of a run for which regular checkpoints hold a job: a real controller, source, pod and CRIU. */
@Tag("soak")
@Timeout(value = 900, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class JobOverheadIT {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration LIMIT = Duration.ofMinutes(10);
    private static final String JOB = "budget";
    private static final int CHECKPOINTS = 10;
    private static final String PROGRAM = "my $memory = pack('N*', 1 .. 1024) x 40000; sleep 1 while 1";

    private static Testbed testbed;
    private static MovingNode node;

    @BeforeAll
    static void start() throws Exception {
        MovingNode.assumePossible();
        Assumptions.assumeTrue(
                JobOverheadIT.class.getResource("/io/ppmr/cluster/job/JobRecord.class") != null,
                "needs the part for clusters");
        testbed = Testbed.create("job-overhead");
        Path checkpoints = Files.createDirectory(testbed.folder().resolve("ckpt"));
        String template = "tmp = \"8m\"\nshm = \"8m\"\ncheckpoints = \"" + checkpoints + "\"";
        BridgedNode hub = new MovingNode(testbed, 9, template).bridged();
        node = new MovingNode(testbed, 1, template);
        BridgedNode.connect(hub, node.bridged());
        hub.startController("overhead = \"5%\"\nleast_interval = \"1s\"");
        node.joinCluster("\"" + hub.controllerAddress() + "\"");
        node.start();
    }

    @AfterAll
    static void end() throws IOException {
        if (testbed != null) {
            testbed.close();
        }
    }

    private static PpmrCommand ppmr(String... words) throws Exception {
        return PpmrCommand.run(words);
    }

    private static JsonNode show() throws Exception {
        PpmrCommand shown =
                ppmr("job", "show", "--json", "--socket", node.socket().toString(), BridgedNode.USER + "/" + JOB);
        return shown.exitCode() == 0 ? JSON.readTree(shown.said()) : JSON.createObjectNode();
    }

    /** A checkpoint, by its set. */
    private record Taken(double heldMs, double takenAtMs) {}

    @Test
    void shouldHoldTheJobForTheOrderedPartOfItsTime() throws Exception {
        PpmrCommand run = ppmr(
                "pod",
                "run",
                "--socket",
                node.socket().toString(),
                "--user",
                BridgedNode.USER,
                "--job",
                JOB,
                "--members",
                "1",
                "--checkpoint-every",
                "1s",
                "budget-pod",
                "--",
                "perl",
                "-e",
                PROGRAM);
        assertEquals(0, run.exitCode(), run.said());
        Map<Integer, Taken> all = new TreeMap<>();
        // An interval is that from a checkpoint to the next one.
        Conditions.until(LIMIT, "the checkpoints are written", () -> {
            for (JsonNode set : show().at("/sets")) {
                all.put(
                        set.at("/round").asInt(),
                        new Taken(
                                set.at("/held_ms").asDouble(),
                                set.at("/taken_at_ms").asDouble()));
            }
            return all.size() > CHECKPOINTS;
        });
        double heldMs = all.values().stream()
                .limit(CHECKPOINTS)
                .mapToDouble(Taken::heldMs)
                .sum();
        double[] times = all.values().stream().mapToDouble(Taken::takenAtMs).toArray();
        double percent = 100 * heldMs / (times[CHECKPOINTS] - times[0]);
        System.out.printf("%d checkpoints held the job for %.2f %% of its time: %s%n", CHECKPOINTS, percent, all);
        assertTrue(percent >= 4 && percent <= 6, percent + " % of " + all);
    }
}
