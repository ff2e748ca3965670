package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.linux.Command;
import io.ppmr.testbed.Patience;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
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
import org.junit.platform.engine.FilterResult;
import org.junit.platform.engine.discovery.DiscoverySelectors;
import org.junit.platform.launcher.PostDiscoveryFilter;
import org.junit.platform.launcher.TagFilter;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;
import org.junit.platform.launcher.listeners.SummaryGeneratingListener;
import org.junit.platform.launcher.listeners.TestExecutionSummary;

/** The tests of pods, with native helpers that were built with the address and undefined-behaviour sanitizers. */
@Tag("soak")
@Timeout(1800)
class SanitizedPodsIT {
    private static final Path HOME = Path.of(System.getProperty("ppmr.home"));
    private static final String HELPERS = "ppmr.native.dir";
    private static final Duration BUILD_LIMIT = Patience.of(Duration.ofMinutes(2));

    private Path base;

    @BeforeEach
    void build() throws Exception {
        PodNode.assumePossible();
        base = Files.createTempDirectory("ppmr-sanitized");
        Files.setPosixFilePermissions(base, PosixFilePermissions.fromString("rwxr-xr-x"));
        Files.createDirectory(base.resolve("findings"));
        Files.setPosixFilePermissions(base.resolve("findings"), PosixFilePermissions.fromString("rwxrwxrwx"));
        Path probe = Files.writeString(base.resolve("probe.c"), "int main(void) { return 0; }\n");
        Assumptions.assumeTrue(
                Command.of(List.of("gcc", "-fsanitize=address,undefined", "-o", base + "/probe", probe.toString()))
                        .run(BUILD_LIMIT)
                        .succeeded(),
                "gcc has no address sanitizer here (package libasan8)");
        for (String module : List.of("ppmr-checkpoint", "ppmr-pods")) {
            Command.of(List.of(
                            "make",
                            "--silent",
                            "-C",
                            HOME.resolve(module + "/src/main/c").toString(),
                            "OUT=" + base.resolve("native"),
                            "FINDINGS=" + base.resolve("findings/of"),
                            "sanitized"))
                    .run(BUILD_LIMIT)
                    .requireOutput();
        }
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
    void shouldFindNothingWhenPodsAreMadeEnteredAndAttacked() throws Exception {
        run(25, TagFilter.excludeTags("soak"), PodIT.class, PodAttackIT.class);
    }

    /** CRIU cannot move what the sanitizer makes of a pod's init, of which it reserves the address space. */
    @Test
    void shouldFindNothingWhenPodsAreMoved() throws Exception {
        Files.copy(
                Path.of(System.getProperty(HELPERS), "ppmr-pod-init"),
                base.resolve("native/ppmr-pod-init"),
                StandardCopyOption.REPLACE_EXISTING,
                StandardCopyOption.COPY_ATTRIBUTES);
        run(4, result -> FilterResult.included("all"), PodLimitsIT.class, PodIpv6IT.class);
    }

    private void run(int fewestTests, PostDiscoveryFilter filter, Class<?>... classes) throws IOException {
        String before = System.getProperty(HELPERS);
        SummaryGeneratingListener listener = new SummaryGeneratingListener();
        System.setProperty(HELPERS, base.resolve("native").toString());
        try {
            LauncherFactory.create()
                    .execute(
                            LauncherDiscoveryRequestBuilder.request()
                                    .selectors(Stream.of(classes)
                                            .map(DiscoverySelectors::selectClass)
                                            .toList())
                                    .filters(filter)
                                    .build(),
                            listener);
        } finally {
            System.setProperty(HELPERS, before);
        }
        TestExecutionSummary summary = listener.getSummary();
        try (Stream<Path> findings = Files.list(base.resolve("findings"))) {
            for (Path finding : findings.toList()) {
                throw new AssertionError(Files.readString(finding));
            }
        }
        assertEquals(
                List.of(),
                summary.getFailures().stream()
                        .map(failure ->
                                failure.getTestIdentifier().getLegacyReportingName() + ": " + failure.getException())
                        .toList());
        assertTrue(
                summary.getTestsSucceededCount() >= fewestTests,
                () -> "only " + summary.getTestsSucceededCount() + " tests ran");
    }
}
