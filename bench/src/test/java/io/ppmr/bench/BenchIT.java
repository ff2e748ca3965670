package io.ppmr.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.ppmr.bench.Carrier.RdmaDevice;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Runs each command once, with few bytes. Tests that it runs, that its result has the required fields, and that the
 * ratio is plausible. The expected ratios are for a quiet machine. See {@code docs/results/performance.md}.
 */
@Timeout(400)
class BenchIT {
    private static final double PLAUSIBLE = 0.1;
    private static final int MAX_BYTES_A_CHUNK = 4096;

    @TempDir
    private Path folder;

    @BeforeAll
    static void requireWhatIsMeasuredWith() throws Exception {
        assumeTrue(Files.exists(Path.of("/dev/fuse")), "/dev/fuse is not here, so nothing can be mounted");
        assumeTrue(
                Files.getAttribute(Path.of("/proc/self"), "unix:uid").equals(0), "the limit is mounted by root only");
        assumeTrue(
                Files.isExecutable(Path.of(System.getProperty(Programs.DIRECTORY_PROPERTY), "bench-limitfs")),
                "bench-limitfs was not built: libfuse-dev is not installed");
    }

    @ParameterizedTest
    @ValueSource(strings = {"aggregation", "transfer", "pipeline", "restart", "whole"})
    void shouldMeasureAStageBesideItsLimit(String stage) throws Exception {
        JsonNode result = run(stage, "--bytes", "8m", "--writers", "2", "--runs", "1");
        assertEquals(stage, result.path("name").asText());
        assertEquals(2, result.path("settings").path("writers").asInt());
        assertTrue(result.path("machine").path("cores").asInt() > 0, "no cores");
        assertEquals(1, result.path("runs").size());
        JsonNode run = result.path("runs").get(0);
        assertEquals(16L << 20, run.path("bytes").asLong());
        for (String field : List.of("seconds", "mibPerSecond", "peakRssBytes")) {
            assertTrue(run.path(field).asDouble() > 0, field + " of " + run);
        }
        assertTrue(run.has("serviceCpuSeconds"), "no processor time in " + run);
        double allocated = run.path("allocatedBytesPerChunk").asDouble();
        assertTrue(allocated < MAX_BYTES_A_CHUNK, allocated + " bytes are allocated for each chunk");
        // Each chunk needs at least one write and one read.
        double leastCalls = stage.equals("transfer") ? 2 : 0;
        assertTrue(run.path("callsPerChunk").asDouble() > leastCalls, "too few calls in " + run);
        assertTrue(run.path("wakingsPerChunk").asDouble() > 0, "no wakings in " + run);
        assertEquals(result.path("median").asDouble(), run.path("mibPerSecond").asDouble());
        assertTrue(result.path("limit").path("mibPerSecond").asDouble() > 0, "no limit in " + result);
        double ratio = result.path("ratio").asDouble();
        assertTrue(ratio > PLAUSIBLE, "ratio " + ratio);
    }

    @Test
    void shouldMeasureEveryPointOfASweep() throws Exception {
        JsonNode result = run(
                "sweep",
                "--stages",
                "transfer,pipeline",
                "--chunks",
                "128k,512k",
                "--pools",
                "1m,4m",
                "--writer-counts",
                "2",
                "--bytes",
                "1m",
                "--runs",
                "1");
        JsonNode points = result.path("details").path("points");
        // A pool of 1 MiB has too few chunks of 512 KiB.
        assertEquals(6, points.size(), points.toString());
        assertEquals(6, result.path("runs").size());
        for (JsonNode point : points) {
            assertTrue(point.path("medianMibPerSecond").asDouble() > 0, "nothing was measured: " + point);
        }
        assertEquals("pipeline", points.get(5).path("stage").asText());
        assertEquals(512 << 10, points.get(5).path("chunkBytes").asInt());
    }

    @Test
    void shouldRefuseAStageWhenItsChunkIsEmpty() {
        String said = failure("transfer", "--chunk", "0");
        assertTrue(said.contains("--chunk must be above 0"), said);
    }

    @Test
    void shouldRefuseASweepBeforeItBegins() {
        String stage = failure("sweep", "--stages", "transfer,restart");
        assertTrue(stage.contains("--stages restart"), stage);
        String writers = failure("sweep", "--writer-counts", "8,0");
        assertTrue(writers.contains("--writer-counts must be above 0"), writers);
        String pools = failure("sweep", "--chunks", "1m", "--pools", "2m");
        assertTrue(pools.contains("give larger pools"), pools);
    }

    @Test
    void shouldTakeAMigrationApart() throws Exception {
        JsonNode result = run(
                "migration",
                "--strategies",
                "pipeline",
                "--writers",
                "2",
                "--bytes",
                "8m",
                "--runs",
                "1",
                "--link",
                "1gbit");
        JsonNode phases = result.path("runs").get(0).path("more").path("phases");
        for (String phase : List.of("suspend", "write", "transfer", "read", "reconnect")) {
            assertEquals(2, phases.path(phase).size(), phase + " in " + phases);
        }
        assertEquals("1gbit", result.path("settings").path("link").asText());
    }

    /** The two strategies with CRIU's own tools also need sshd. They are called in the same way. */
    @Test
    void shouldMovePlainProcessesByCriuBothWaysWhenAsked() throws Exception {
        JsonNode result = run(
                "migration",
                "--strategies",
                "criu-streamed,criu-images",
                "--shape",
                "fragmented",
                "--writers",
                "2",
                "--bytes",
                "8m",
                "--runs",
                "1");
        for (String strategy : List.of("criu-streamed", "criu-images")) {
            JsonNode run = result.path("details").path(strategy + " runs").get(0);
            assertTrue(run.path("bytes").asLong() > 2 * (8 << 20), run.toString());
            assertTrue(run.path("pauseSeconds").asDouble() > 0, run.toString());
        }
    }

    @Test
    void shouldWatchIdleServices() throws Exception {
        JsonNode run = run("idle", "--seconds", "2", "--runs", "1").path("runs").get(0);
        for (String field : List.of("cpuPercent", "wakeupsPerSecond", "peakRssBytes")) {
            assertTrue(run.has(field), field + " is missing in " + run);
        }
    }

    @Test
    void shouldSayWhatIsWrongWhenItCannotMeasure() {
        String said = failure("pipeline", "--transport", "pigeon");
        assertTrue(said.contains("pigeon"), said);
    }

    @ParameterizedTest
    @ValueSource(strings = {"aggregation", "restart", "migration", "multiplex", "sweep", "cold", "idle", "limits"})
    void shouldRefuseRdmaWhenNothingWouldCrossTheNetworkByIt(String command) {
        String said = failure(command, "--transport", "rdma");
        assertTrue(said.contains("bench " + command + ": --transport rdma"), said);
        assertTrue(said.contains("measure transfer, pipeline or whole"), said);
    }

    @ParameterizedTest
    @ValueSource(strings = {"transfer", "pipeline", "whole"})
    void shouldNameWhatIsMissingWhenThereIsNoRdmaDevice(String command) {
        assumeTrue(!Files.exists(RdmaDevice.DEVICES), "this machine may have an RDMA device");
        String said = failure(command, "--transport", "rdma");
        assertTrue(said.contains("--transport rdma: ") && said.contains("./ppmr guest -- "), said);
    }

    private static String failure(String... words) {
        StringWriter err = new StringWriter();
        int status = Bench.execute(words, new PrintWriter(new StringWriter()), new PrintWriter(err));
        assertEquals(1, status);
        return err.toString();
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
