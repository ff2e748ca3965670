package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.linux.Command;
import io.ppmr.testbed.Patience;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** The launcher answers short questions without a JVM, and with the text of the command line. */
@Tag("soak")
@Timeout(value = 120, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class NativeClientIT {
    private static final Duration LIMIT = Patience.of(Duration.ofSeconds(30));

    @TempDir
    private Path directory;

    /** Runs the launcher with a JDK that does not exist. */
    private static String launcher(String... words) throws IOException, InterruptedException {
        List<String> command = new ArrayList<>(List.of(System.getProperty("ppmr.home") + "/ppmr"));
        command.addAll(List.of(words));
        Command.CommandResult result =
                Command.of(command).with("PPMR_JAVA_HOME", "/nonexistent").run(LIMIT);
        return result.exitCode() + "\n" + result.output();
    }

    @Test
    void shouldShowWhatTheCommandLineShowsWithoutAJvm() throws Exception {
        try (RealServices services = new RealServices(directory).warmUpMigrations(1);
                ReplayJob job = new ReplayJob(directory)) {
            job.rank(List.of("open image wcx", "write 4m 64k", "close"), List.of("open image r", "read 4m", "eof"));
            services.startTarget(job);
            services.startSource(job);
            assertEquals(0, services.migrate(directory.resolve("report.json")));
            for (String role : List.of("source", "target")) {
                String log = services.log(role);
                assertFalse(log.contains("fuse: "), () -> "a message of libfuse in " + log);
                String socket = services.socket(role).toString();
                for (List<String> form : List.of(List.<String>of(), List.of("--json"))) {
                    List<String> words = new ArrayList<>(List.of("status", "--socket", socket));
                    words.addAll(form);
                    assertEquals(
                            services.command("status", role, form),
                            launcher(words.toArray(String[]::new)),
                            words.toString());
                }
            }
            String refused = launcher(
                    "cancel", "none", "--socket", services.socket("source").toString());
            assertTrue(refused.contains("/nonexistent"), refused);
        }
    }
}
