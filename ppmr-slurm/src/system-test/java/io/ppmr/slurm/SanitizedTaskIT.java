package io.ppmr.slurm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.linux.Command;
import io.ppmr.testbed.Patience;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
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

/** The tests of what srun starts, with a program that was built with the sanitizers. */
@Tag("soak")
@Timeout(1800)
class SanitizedTaskIT {
    private static final Path SOURCES = Path.of(System.getProperty("ppmr.home"), "ppmr-slurm/src/main/c");
    private static final String HELPERS = "ppmr.native.dir";
    private static final Duration BUILD_LIMIT = Patience.of(Duration.ofMinutes(2));
    /** As many as there are at least, so that a run that finds none is none that passes. */
    private static final int FEWEST_TESTS = 12;

    private Path base;

    @BeforeEach
    void build() throws Exception {
        base = Files.createTempDirectory("ppmr-sanitized");
        Files.setPosixFilePermissions(base, PosixFilePermissions.fromString("rwxr-xr-x"));
        Path findings = Files.createDirectory(base.resolve("findings"));
        Files.setPosixFilePermissions(findings, PosixFilePermissions.fromString("rwxrwxrwx"));
        Path probe = Files.writeString(base.resolve("probe.c"), "int main(void) { return 0; }\n");
        Assumptions.assumeTrue(
                Command.of(List.of("gcc", "-fsanitize=address,undefined", "-o", base + "/probe", probe.toString()))
                        .run(BUILD_LIMIT)
                        .succeeded(),
                "gcc has no address sanitizer here (package libasan8)");
        Command.of(List.of(
                        "make",
                        "--silent",
                        "-C",
                        SOURCES.toString(),
                        "OUT=" + base.resolve("native"),
                        "FINDINGS=" + findings.resolve("of"),
                        "sanitized"))
                .run(BUILD_LIMIT)
                .requireOutput();
    }

    @AfterEach
    void clean() throws Exception {
        if (base != null) {
            Command.of(List.of("rm", "-rf", "--", base.toString()))
                    .run(BUILD_LIMIT)
                    .requireOutput();
        }
    }

    @Test
    void shouldFindNothingWhenTheTaskRunsItsTests() throws Exception {
        String before = System.getProperty(HELPERS);
        SummaryGeneratingListener listener = new SummaryGeneratingListener();
        System.setProperty(HELPERS, base.resolve("native").toString());
        try {
            LauncherFactory.create()
                    .execute(
                            LauncherDiscoveryRequestBuilder.request()
                                    .selectors(DiscoverySelectors.selectClass(SlurmTaskIT.class))
                                    .build(),
                            listener);
        } finally {
            System.setProperty(HELPERS, before);
        }
        try (Stream<Path> findings = Files.list(base.resolve("findings"))) {
            for (Path finding : findings.toList()) {
                throw new AssertionError(Files.readString(finding));
            }
        }
        TestExecutionSummary summary = listener.getSummary();
        assertEquals(
                List.of(),
                summary.getFailures().stream()
                        .map(failure ->
                                failure.getTestIdentifier().getLegacyReportingName() + ": " + failure.getException())
                        .toList());
        assertTrue(summary.getTestsSucceededCount() >= FEWEST_TESTS, () -> "only " + summary.getTestsSucceededCount());
    }
}
