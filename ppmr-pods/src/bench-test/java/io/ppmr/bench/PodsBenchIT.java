package io.ppmr.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Runs the benchmark of pods once, with few bytes. Tests that it runs, and that its result has the required fields. */
@Timeout(400)
class PodsBenchIT {
    @TempDir
    private Path folder;

    /** Plain CRIU beside it needs sshd as well, as the benchmark's own set-up installs it. */
    @Test
    void shouldMovePodsBesideDumpCopyAndRestoreWhenAsked() throws Exception {
        assumeTrue(Files.exists(Path.of("/dev/fuse")), "/dev/fuse is not here, so nothing can be mounted");
        assumeTrue(Files.getAttribute(Path.of("/proc/self"), "unix:uid").equals(0), "pods are root's to make");
        assumeTrue(Programs.present("crun"), "crun, which makes pods, is not installed");
        assumeTrue(Programs.present("sshd") && Programs.present("sshfs"), "needs openssh-server and sshfs");
        JsonNode result = run("pods", "--sizes", "8m,96m", "--runs", "1", "--link", "1gbit");
        JsonNode details = result.path("details");
        for (String memory : List.of("8 MiB, ", "96 MiB, ")) {
            for (String strategy : List.of(PodStrategies.PPMR, PodStrategies.COPY)) {
                JsonNode run = details.path(memory + strategy + " runs").get(0);
                double seconds = run.path("seconds").asDouble();
                assertTrue(seconds > 0, run.toString());
                assertTrue(run.path("longestGapSeconds").size() > 0, run.toString());
                for (JsonNode gap : run.path("longestGapSeconds")) {
                    assertTrue(gap.asDouble() > seconds / 2, "peers have no answer while the cable is out: " + run);
                }
            }
            assertTrue(details.path(memory + "pod by pod-copy").asDouble() > 0, details.toString());
        }
        assertTrue(result.path("runs").get(0).path("bytes").asLong() > 96 << 20, result.toString());
    }

    private JsonNode run(String... words) throws Exception {
        Path json = folder.resolve("result.json");
        List<String> all = new ArrayList<>(List.of(words));
        all.addAll(List.of("--json", json.toString()));
        StringWriter out = new StringWriter();
        StringWriter err = new StringWriter();
        int status = Bench.execute(all.toArray(String[]::new), new PrintWriter(out), new PrintWriter(err));
        assertEquals(0, status, () -> out + "\n" + err);
        return new ObjectMapper().readTree(json.toFile());
    }
}
