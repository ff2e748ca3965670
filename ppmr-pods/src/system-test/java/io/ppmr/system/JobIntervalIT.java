package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.ppmr.pods.PodStatus;
import io.ppmr.pods.testbed.BridgedNode;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Testbed;
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

/** Checkpoints jobs over several nodes at their intervals: a real controller, sources, pods and CRIU. */
@Timeout(value = 240, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class JobIntervalIT {
    private static final ObjectMapper JSON = new ObjectMapper();

    private static Testbed testbed;
    private static MovingNode node;

    @BeforeAll
    static void start() throws Exception {
        MovingNode.assumePossible();
        Assumptions.assumeTrue(
                JobIntervalIT.class.getResource("/io/ppmr/cluster/job/JobRecord.class") != null,
                "needs the part for clusters");
        testbed = Testbed.create("job-interval");
        Path checkpoints = Files.createDirectory(testbed.folder().resolve("ckpt"));
        String template = "tmp = \"8m\"\nshm = \"8m\"\ncheckpoints = \"" + checkpoints + "\"";
        BridgedNode hub = new MovingNode(testbed, 9, template).bridged();
        node = new MovingNode(testbed, 1, template);
        BridgedNode.connect(hub, node.bridged());
        hub.startController("overhead = \"50%\"\nleast_interval = \"1s\"\ncheckpoints_at_once = 1");
        node.joinCluster("\"" + hub.controllerAddress() + "\"");
        node.start();
    }

    @AfterAll
    static void end() throws IOException {
        if (testbed != null) {
            testbed.close();
        }
    }

    @AfterEach
    void stopPods() throws Exception {
        for (PodStatus pod : node.list("source")) {
            ppmr("pod", "stop", pod.name());
        }
    }

    private static PpmrCommand ppmr(String command, String sub, String... more) throws Exception {
        List<String> words =
                new ArrayList<>(List.of(command, sub, "--socket", node.socket().toString()));
        words.addAll(List.of(more));
        return PpmrCommand.run(words.toArray(String[]::new));
    }

    private static void run(String job, String pod, String every, String... command) throws Exception {
        List<String> words = new ArrayList<>(List.of("--user", BridgedNode.USER, "--job", job, "--members", "1"));
        words.addAll(List.of("--checkpoint-every", every, pod, "--"));
        words.addAll(List.of(command));
        PpmrCommand run = ppmr("pod", "run", words.toArray(String[]::new));
        assertEquals(0, run.exitCode(), run.said());
    }

    private static JsonNode show(String job) throws Exception {
        PpmrCommand shown = ppmr("job", "show", "--json", BridgedNode.USER + "/" + job);
        return shown.exitCode() == 0 ? JSON.readTree(shown.said()) : JSON.createObjectNode();
    }

    @Tag("soak")
    @Test
    void shouldWriteSetsWithoutAnOrderWhenJobsHaveAnInterval() throws Exception {
        List<String> jobs = List.of("j0", "j1", "j2");
        for (String job : jobs) {
            run(job, job + "-pod", "1s", "sleep", "600");
        }
        int most = 0;
        while (!jobs.stream().allMatch(job -> rounds(job) >= 3)) {
            int together = 0;
            PpmrCommand listed = ppmr("job", "list", "--json");
            assertEquals(0, listed.exitCode(), listed.said());
            for (JsonNode job : JSON.readTree(listed.said())) {
                together += job.at("/phase").asText().equals("checkpoint") ? 1 : 0;
            }
            most = Math.max(most, together);
        }
        assertTrue(most <= 1, most + " checkpoints were under way at once");
        for (String job : jobs) {
            JsonNode shown = show(job);
            assertTrue(!shown.at("/sets").isEmpty(), shown.toString());
            assertEquals("1s", shown.at("/schedule/every").asText(), shown.toString());
            assertEquals(false, shown.at("/schedule/is_overdue").asBoolean(true), shown.toString());
        }
    }

    private static int rounds(String job) {
        try {
            return show(job).at("/round").asInt();
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
    }

    @Test
    @Tag("soak")
    void shouldNameTheCauseWhenAnIntervalCannotBeDerived() throws Exception {
        run("auto", "auto-pod", "auto", "sleep", "600");
        Conditions.until(BridgedNode.LIMIT, "the user sees the cause", () -> ppmr("job", "show", "1/auto")
                .said()
                .contains("node_mtbf"));
    }

    @Tag("soak")
    @Test
    void shouldRefuseAPodWhenItsIntervalIsInvalidOrAnotherThanItsJobs() throws Exception {
        run("one", "first", "10m", "sleep", "600");
        String[] other = {"--user", BridgedNode.USER, "--job", "one", "--members", "1", "second", "--", "true"};
        PpmrCommand refused = ppmr("pod", "run", other);
        assertNotEquals(0, refused.exitCode());
        assertTrue(refused.said().contains("other values of --members and --checkpoint-every"), refused.said());
        String[] invalid = {
            "--user", BridgedNode.USER, "--members", "1", "--checkpoint-every", "often", "third", "--", "true"
        };
        refused = ppmr("pod", "run", invalid);
        assertNotEquals(0, refused.exitCode());
        assertTrue(refused.said().contains("90s, 10m"), refused.said());
    }
}
