package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.daemon.control.ControlClient;
import io.ppmr.linux.Command;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.migration.source.MigrationReport.Outcome;
import io.ppmr.protocol.control.NodeFacts;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Patience;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Targets that could not restart the job. They report every reason, and the originals were never stopped. */
@Timeout(value = 90, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class UnfitTargetIT {
    private static final List<String> CHECKPOINT = List.of("open image wcx", "write 1m", "close");
    private static final List<String> RESTART = List.of("open image r", "read 1m", "eof");

    @TempDir
    private Path directory;

    /** A node with another processor and less memory than the one that the test runs on. */
    private static NodeFacts with(NodeFacts here, List<String> features, String kernel, long availableBytes) {
        return new NodeFacts(
                "spare",
                here.architecture(),
                kernel,
                here.libc(),
                here.jdk(),
                here.clockEpochMs(),
                availableBytes,
                here.stagingBytes(),
                here.chunkBytes(),
                features,
                here.rdmaPorts(),
                here.tools());
    }

    private static List<String> without(NodeFacts here, String feature) {
        List<String> features = new ArrayList<>(here.cpuFeatures());
        assertTrue(features.remove(feature), () -> feature + " is none of this machine's: " + here.cpuFeatures());
        return features;
    }

    private MigrationReport refused(ServicePair.Options options, UnaryOperator<NodeFacts> targetIs, ReplayJob job)
            throws Exception {
        try (ServicePair pair = new ServicePair(directory, options, targetIs)) {
            long before = job.contextSwitches();
            MigrationReport report = job.fails(pair, Outcome.REFUSED);
            assertEquals(before, job.contextSwitches(), "an original was stopped");
            return report;
        }
    }

    @Test
    void shouldRefuseWhenTheProcessorLacksAFeature() throws Exception {
        try (ReplayJob job = new ReplayJob(directory).rank(CHECKPOINT, RESTART)) {
            String reason = refused(
                            ServicePair.Options.with(job.checkpointer()),
                            here -> with(here, without(here, "popcnt"), here.kernel(), here.availableBytes()),
                            job)
                    .reason();
            assertTrue(reason.contains("lacks popcnt"), reason);
            assertTrue(reason.contains("name a spare node whose processor has them"), reason);
        }
    }

    @Test
    void shouldNameEveryReasonWhenThereAreSeveral() throws Exception {
        try (ReplayJob job = new ReplayJob(directory).rank(CHECKPOINT, RESTART)) {
            String reason = refused(
                            ServicePair.Options.with(job.checkpointer()).sourcePool(PoolGeometry.of(8 << 20, 64 << 10)),
                            here -> with(here, without(here, "popcnt"), here.kernel(), 4096),
                            job)
                    .reason();
            assertTrue(reason.contains("65536"), reason);
            assertTrue(reason.contains("lacks popcnt"), reason);
            assertTrue(reason.contains("0 MiB are available here: free memory"), reason);
        }
    }

    @Test
    void shouldRefuseARetainedImageWhenTheTargetHasNoStaging() throws Exception {
        try (ReplayJob job = new ReplayJob(directory).retained().rank(CHECKPOINT, RESTART)) {
            String reason = refused(ServicePair.Options.with(job.checkpointer()).staging(0), here -> here, job)
                    .reason();
            assertTrue(reason.contains("wait in staging, and this node has none (staging.limit = 0)"), reason);
            assertTrue(reason.contains("set staging.limit of this target"), reason);
        }
    }

    /** A missing mount leaves an empty directory, in which a checkpointer would find no name. */
    @ParameterizedTest
    @ValueSource(strings = {"source", "target"})
    void shouldRefuseByNameWhenAMountWasTakenOff(String service) throws Exception {
        try (ReplayJob job = new ReplayJob(directory).rank(CHECKPOINT, RESTART);
                ServicePair pair = new ServicePair(directory, ServicePair.Options.with(job.checkpointer()))) {
            long before = job.contextSwitches();
            Path mountPoint = directory.resolve(service);
            Command.of(List.of("umount", mountPoint.toString()))
                    .run(Patience.of(Duration.ofSeconds(60)))
                    .requireOutput();
            Conditions.until("the loss is seen", () -> pair.complains(service));
            job.fails(pair, Outcome.REFUSED, mountPoint + " is no longer served", "start the service again");
            assertEquals(before, job.contextSwitches(), "an original was stopped");
        }
    }

    @Tag("soak")
    @Test
    void shouldOnlyWarnWhenTheKernelIsOlder() throws Exception {
        try (ReplayJob job = new ReplayJob(directory).rank(CHECKPOINT, RESTART);
                ServicePair pair = new ServicePair(
                        directory,
                        ServicePair.Options.with(job.checkpointer()),
                        here -> with(here, here.cpuFeatures(), "3.10.0", here.availableBytes()))) {
            job.commits(pair);
        }
    }

    @Tag("soak")
    @Test
    void shouldFindAPairWellWhenBothServicesAreThisNode() throws Exception {
        try (ReplayJob job = new ReplayJob(directory).rank(CHECKPOINT, RESTART);
                RealServices services = new RealServices(directory)) {
            services.startTarget(job);
            services.startSource(job);
            long before = job.contextSwitches();
            String said = services.doctor("source");
            assertTrue(said.startsWith("0\n"), said);
            assertTrue(said.contains("job replay, and 127.0.0.1:"), said);
            assertTrue(said.contains("this node has every instruction that the source has"), said);
            assertFalse(said.contains("fail "), said);
            assertTrue(services.doctor("target", "--json").contains("\"failures\" : 0"), services.log("doctor"));
            assertEquals(before, job.contextSwitches(), "an original was stopped");
            assertFalse(services.log("target").contains("is refused"), services.log("target"));
            assertEquals(0, services.migrate(directory.resolve("report.json")), () -> "it can be moved after all that");
        }
    }

    @Tag("soak")
    @Test
    void shouldMoveInTheChunksThatBothServicesChooseWhenTheChunkIsAuto() throws Exception {
        String pool = "[pool]\nsize = \"8m\"\nchunk = \"auto\"\n";
        try (ReplayJob job = new ReplayJob(directory).rank(CHECKPOINT, RESTART);
                RealServices services = new RealServices(directory).sections(pool, pool)) {
            services.startTarget(job);
            services.startSource(job);
            String chosen = "chunks of 256 KiB, 32 of them: pool.chunk is \"auto\", and the pool has 8192 KiB";
            for (String role : List.of("source", "target")) {
                assertTrue(services.log(role).contains("pool: " + chosen), services.log(role));
                try (ControlClient client = new ControlClient(services.socket(role))) {
                    String transport = client.status().transport();
                    assertTrue(transport.endsWith("; " + chosen), transport);
                }
            }
            String said = services.doctor("source");
            assertTrue(said.contains("262144 bytes on both"), said);
            int exit = services.migrate(directory.resolve("report.json"));
            assertEquals(0, exit, services.log("migrate"));
        }
    }

    @Tag("soak")
    @Test
    void shouldNameThePoolsSizesWhenTheChunksThatWereChosenDiffer() throws Exception {
        String pool = "[pool]\nsize = \"%s\"\nchunk = \"auto\"\n";
        try (ReplayJob job = new ReplayJob(directory).rank(CHECKPOINT, RESTART);
                RealServices services =
                        new RealServices(directory).sections(pool.formatted("8m"), pool.formatted("4m"))) {
            services.startTarget(job);
            services.startSource(job);
            String said = services.doctor("source");
            String differ = "the source's chunks have 262144 bytes, this node's 131072";
            assertTrue(said.contains(differ) && said.contains("the same pool.size"), said);
            assertNotEquals(0, services.migrate(directory.resolve("report.json")));
            assertTrue(services.log("migrate").contains("the same pool.size"), services.log("migrate"));
        }
    }
}
