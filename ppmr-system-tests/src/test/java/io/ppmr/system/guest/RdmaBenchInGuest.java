package io.ppmr.system.guest;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import picocli.CommandLine;

/**
 * Runs the benchmark of a transfer over RDMA once, with few bytes. Tests that it runs, and tests its result. The
 * expected ratio is not for an emulated machine.
 */
@Timeout(value = 200, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class RdmaBenchInGuest {
    /** The folder of the benchmarks for {@link RdmaGuestIT}. Nothing else here may depend on them. */
    static final Path CLASSES = Path.of("bench/target/classes");

    private static final Path HOME = Path.of(System.getProperty("ppmr.home"));

    @TempDir
    private Path folder;

    @Test
    void shouldMeasureATransferBesideIbWriteBwWhenThereAreTwoDevices() throws Exception {
        assumeTrue(
                Files.isDirectory(HOME.resolve(CLASSES).resolveSibling("lib")),
                "the benchmarks are not built: build the module bench before this one (mvn -pl bench -am package)");
        Path json = folder.resolve("result.json");
        StringWriter out = new StringWriter();
        CommandLine bench = (CommandLine)
                Class.forName("io.ppmr.bench.Bench").getMethod("commandLine").invoke(null);
        int status = bench.setOut(new PrintWriter(out))
                .setErr(new PrintWriter(out))
                .execute(
                        "transfer",
                        "--transport=rdma",
                        "--writers=2",
                        "--bytes=1m",
                        "--runs=1",
                        "--no-warm-up",
                        "--json=" + json);
        assertEquals(0, status, out::toString);
        System.out.print(out);
        JsonNode result = new ObjectMapper().readTree(json.toFile());
        assertEquals("transfer", result.path("name").asText());
        JsonNode settings = result.path("settings");
        assertEquals("rdma", settings.path("transport").asText());
        assertEquals("rxe0", settings.path("sourceDevice").asText());
        assertEquals("rxe1", settings.path("targetDevice").asText());
        String device = result.path("machine").path("device").asText();
        assertEquals("RDMA from rxe0 at 10.77.0.1 to rxe1 at 10.77.0.2", device);
        assertTrue(result.path("median").asDouble() > 0, () -> "median in " + result);
        assertEquals("write", settings.path("rdmaMode").asText());
        assertEquals("ib_write_bw", result.path("limit").path("name").asText());
        assertTrue(result.path("limit").path("mibPerSecond").asDouble() > 0, () -> "limit in " + result);
        assertTrue(result.path("ratio").asDouble() > 0, () -> "ratio in " + result);
    }
}
