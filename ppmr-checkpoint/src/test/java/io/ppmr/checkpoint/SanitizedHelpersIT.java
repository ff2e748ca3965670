package io.ppmr.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.linux.Command;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.platform.engine.discovery.DiscoverySelectors;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;
import org.junit.platform.launcher.listeners.SummaryGeneratingListener;
import org.junit.platform.launcher.listeners.TestExecutionSummary;

/** Runs the tests of the native helpers with helpers that were built with the sanitizers. */
@Tag("soak")
@Timeout(1800)
class SanitizedHelpersIT {
    private static final String HELPERS = "ppmr.native.dir";
    private static final Duration BUILD_LIMIT = Duration.ofMinutes(3);
    private static final List<Class<?>> TESTS = List.of(
            BlcrCheckpointerIT.class,
            CheckpointStepsIT.class,
            CommandCheckpointerIT.class,
            CriuCheckpointerIT.class,
            RankCommandsIT.class,
            RankInitIT.class,
            SessionKeyringIT.class,
            WorkDirectoriesIT.class);
    /** Minimum number of these classes' tests, so that a run without tests does not pass. */
    private static final int FEWEST_TESTS = 60;

    private Path base;

    @BeforeEach
    void build() throws Exception {
        Assumptions.assumeTrue(sanitizersWork(), "gcc has no address sanitizer here (package libasan8)");
        base = Files.createTempDirectory("ppmr-sanitized");
        Files.setPosixFilePermissions(base, PosixFilePermissions.fromString("rwxr-xr-x"));
        // Helpers that have become a job's user write there, too.
        Files.createDirectory(base.resolve("findings"));
        Files.setPosixFilePermissions(base.resolve("findings"), PosixFilePermissions.fromString("rwxrwxrwx"));
        Command.CommandResult made = CommandStarter.call(
                List.of(
                        "make",
                        "--silent",
                        "-C",
                        "src/main/c",
                        "OUT=" + base.resolve("native"),
                        "FINDINGS=" + base.resolve("findings/of"),
                        "sanitized"),
                BUILD_LIMIT);
        assertEquals(0, made.exitCode(), made.output());
    }

    @AfterEach
    void clean() throws Exception {
        if (base != null) {
            remove(base);
        }
    }

    /** Returns true if programs can be built with the sanitizers here, and run. */
    static boolean sanitizersWork() throws IOException, CheckpointException {
        Path folder = Files.createTempDirectory("ppmr-sanitizers");
        try {
            Path source = Files.writeString(folder.resolve("probe.c"), "int main(void) { return 0; }\n");
            String probe = folder.resolve("probe").toString();
            List<String> build = List.of("gcc", "-fsanitize=address,undefined", "-o", probe, source.toString());
            return CommandStarter.call(build, BUILD_LIMIT).succeeded()
                    && CommandStarter.call(List.of(probe), BUILD_LIMIT).succeeded();
        } finally {
            remove(folder);
        }
    }

    static void remove(Path folder) throws IOException {
        try (Stream<Path> files = Files.walk(folder)) {
            for (Path file : files.sorted(Comparator.reverseOrder()).toList()) {
                Files.delete(file);
            }
        }
    }

    @Test
    void shouldFindNothingWhenTheHelpersRunTheirTests() throws Exception {
        String before = System.getProperty(HELPERS);
        SummaryGeneratingListener listener = new SummaryGeneratingListener();
        System.setProperty(HELPERS, base.resolve("native").toString());
        try {
            LauncherFactory.create()
                    .execute(
                            LauncherDiscoveryRequestBuilder.request()
                                    .selectors(TESTS.stream()
                                            .map(DiscoverySelectors::selectClass)
                                            .toList())
                                    .build(),
                            listener);
        } finally {
            System.setProperty(HELPERS, before);
        }
        TestExecutionSummary summary = listener.getSummary();
        System.out.println(summary.getTestsSucceededCount() + " tests ran with sanitized helpers, "
                + summary.getTestsAbortedCount() + " had no place here");
        List<String> findings = findings();
        assertEquals(List.of(), findings);
        assertEquals(
                List.of(),
                summary.getFailures().stream()
                        .map(failure ->
                                failure.getTestIdentifier().getLegacyReportingName() + ": " + failure.getException())
                        .toList());
        assertTrue(summary.getTestsSucceededCount() >= FEWEST_TESTS, () -> "only " + summary.getTestsSucceededCount());
    }

    private List<String> findings() throws IOException {
        try (Stream<Path> files = Files.list(base.resolve("findings"))) {
            return files.map(file -> {
                        try {
                            return Files.readString(file);
                        } catch (IOException e) {
                            return file + ": " + e;
                        }
                    })
                    .toList();
        }
    }
}
