package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.ppmr.testbed.Patience;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;
import org.junit.jupiter.api.io.TempDir;

/**
 * Tests the demo as a user runs it. It has two isolated nodes, real jobs that checkpoint themselves and real processes
 * under CRIU. They are moved while they compute, and their results are right in the end.
 */
@Timeout(value = 400, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class DemoIT {
    private static final Path HOME = Path.of(System.getProperty("ppmr.home"));

    @TempDir
    private Path directory;

    @Tag("soak")
    @Test
    void shouldReadAStreamWhileItIsWrittenWhenSelfCheckpointingProcessesMove() throws Exception {
        requireStreamed(migration(directory, "blcr"));
    }

    @Tag("soak")
    @Test
    @EnabledIfSystemProperty(named = "os.arch", matches = "amd64")
    void shouldReadAStreamWhileItIsWrittenWhenTheKernelIsAsOldAsBlcrs() throws Exception {
        requireStreamed(migration(directory, "blcr", "--old-kernel"));
    }

    private static void requireStreamed(JsonNode migration) {
        long poolBytes = migration.get("memory").get("poolBytes").asLong();
        long bytes = migration.get("images").get("bytes").asLong();
        assertTrue(
                migration.get("images").get("bytesReadWhenLastWritten").asLong() >= bytes - 4 * poolBytes,
                migration::toPrettyString);
        assertEquals(0, migration.get("images").get("stagedBytes").asLong(), migration::toPrettyString);
        assertTrue(migration.get("memory").get("sourcePeakRssBytes").asLong() <= 256 << 20, migration::toPrettyString);
        assertTrue(migration.get("memory").get("targetPeakRssBytes").asLong() <= 256 << 20, migration::toPrettyString);
    }

    @Test
    void shouldGoOnWhenOrdinaryProcessesWithThreadsAndSharedMemoryMoveByCriu() throws Exception {
        JsonNode migration = migration(directory, "criu");
        assertTrue(migration.get("images").get("bytes").asLong() > 3 * (48L << 20), migration::toPrettyString);
        // A quarter of the memory is shared and waits. The memory of a single process is streamed.
        long sharedBytes = 3 * (12L << 20);
        assertTrue(
                migration.get("images").get("stagedBytes").asLong() <= sharedBytes + (64 << 20),
                migration::toPrettyString);
        assertTrue(
                migration.get("memory").get("targetPeakRssBytes").asLong() <= sharedBytes + (256 << 20),
                migration::toPrettyString);
    }

    /** Runs the demo with one checkpointer and returns its migration, whose processes all continued correctly. */
    static JsonNode migration(Path directory, String checkpointer, String... more) throws Exception {
        Path json = directory.resolve("demo.json");
        Path log = directory.resolve("demo.log");
        List<String> words =
                command("--checkpointer", checkpointer, "--processes", "3", "--size", "48m", "--json", json.toString());
        words.addAll(List.of(more));
        ProcessBuilder builder = new ProcessBuilder(words);
        builder.environment().put("_JAVA_SR_SIGNUM", "40");
        Process demo =
                builder.redirectErrorStream(true).redirectOutput(log.toFile()).start();
        try {
            assertTrue(demo.waitFor(Patience.of(350), TimeUnit.SECONDS), () -> "the demo has not ended");
            assertEquals(0, demo.exitValue(), Files.readString(log));
        } finally {
            demo.destroy();
        }
        JsonNode migrations = new ObjectMapper().readTree(json.toFile()).get("migrations");
        assertEquals(1, migrations.size(), Files.readString(log));
        JsonNode migration = migrations.get(0);
        boolean mpi = checkpointer.equals("mpi");
        assertEquals(mpi ? "criu" : checkpointer, migration.get("checkpointer").asText());
        assertEquals("committed", migration.get("outcome").asText(), Files.readString(log));
        assertEquals(mpi ? 6 : 3, migration.get("processes").size());
        for (JsonNode process : migration.get("processes")) {
            assertTrue(process.get("continued").asBoolean(), migration::toPrettyString);
            assertTrue(process.get("resultOk").asBoolean(), migration::toPrettyString);
        }
        return migration;
    }

    private static List<String> command(String... arguments) throws Exception {
        Properties flags = new Properties();
        try (var in = Files.newInputStream(HOME.resolve("conf/jvm.properties"))) {
            flags.load(in);
        }
        List<String> words = new ArrayList<>();
        words.add(System.getProperty("java.home") + "/bin/java");
        words.addAll(Arrays.asList(flags.getProperty("PPMR_JAVA_OPTIONS").trim().split("\\s+", -1)));
        words.add("-Dppmr.native.dir=" + HOME.resolve("ppmr-checkpoint/target/native"));
        words.add("-Dppmr.demo.dir=" + HOME.resolve("ppmr-checkpoint/target/native-test"));
        words.addAll(List.of("-cp", System.getProperty("java.class.path"), "io.ppmr.testbed.demo.Demo"));
        words.addAll(Arrays.asList(arguments));
        return words;
    }
}
