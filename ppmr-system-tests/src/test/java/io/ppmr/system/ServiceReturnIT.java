package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Patience;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** {@code ppmr migrate} while its service is killed. */
@Timeout(value = 120, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class ServiceReturnIT {
    private static final int ROLLED_BACK = 3;

    @TempDir
    private Path directory;

    private static CompletableFuture<Integer> migrate(RealServices services, Path directory, String patience) {
        return CompletableFuture.supplyAsync(() -> {
            try {
                return services.migrate(directory.resolve("none.json"), "replay", "--service-patience", patience);
            } catch (Exception e) {
                throw new IllegalStateException(e);
            }
        });
    }

    private ReplayJob job() throws Exception {
        ReplayJob job = new ReplayJob(directory);
        return job.rank(
                List.of("open image wcx", "write 1m", "touch " + job.outside("written"), "pause 60000", "close"),
                List.of("open image r", "read 1m", "eof"));
    }

    private static void kill(ReplayJob job, Process source) throws Exception {
        Conditions.until("the image is being written", () -> Files.exists(job.outside("written")));
        source.destroyForcibly();
        assertTrue(source.waitFor(Patience.of(60), TimeUnit.SECONDS), "a killed service must end");
    }

    private static void requireWords(String said, String... words) {
        for (String word : words) {
            assertTrue(said.contains(word), "'" + said + "' does not say '" + word + "'");
        }
    }

    @Tag("soak")
    @Test
    void shouldTellHowItEndedWhenTheServiceComesBack() throws Exception {
        try (ReplayJob job = job();
                RealServices services = new RealServices(directory)) {
            services.startTarget(job);
            Process source = services.startSource(job);
            CompletableFuture<Integer> migrated = migrate(services, directory, "60");
            kill(job, source);
            services.startSource(job);
            int exitCode = migrated.get();
            String said = services.log("migrate");
            assertEquals(ROLLED_BACK, exitCode, said);
            requireWords(
                    said, " ended while it moved job replay: migration ", "systemctl start ppmr-source", "rolled back");
            assertTrue(job.originalsRun(), "the originals continue");
        }
    }

    @Tag("soak")
    @Test
    void shouldSayWhatIsKnownAndWhatToTypeWhenTheServiceStaysAway() throws Exception {
        try (ReplayJob job = job();
                RealServices services = new RealServices(directory)) {
            services.startTarget(job);
            Process source = services.startSource(job);
            CompletableFuture<Integer> migrated = migrate(services, directory, "2");
            kill(job, source);
            int exitCode = migrated.get();
            String said = services.log("migrate");
            assertEquals(1, exitCode, said);
            requireWords(
                    said,
                    "the service has not come back within 2 s",
                    "of job replay",
                    "systemctl start ppmr-source",
                    "Then: ppmr show ");
        }
    }
}
