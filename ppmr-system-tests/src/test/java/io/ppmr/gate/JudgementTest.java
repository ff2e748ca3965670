package io.ppmr.gate;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.linux.Command;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The gate's own judgement of a run ({@code scripts/test.sh}), on reports as Surefire and Failsafe write them. */
class JudgementTest {
    private static final Path SCRIPTS = Path.of(System.getProperty("ppmr.home"), "scripts");
    private static final Duration LIMIT = Duration.ofSeconds(60);
    private static final String LATE = "java.util.concurrent.TimeoutException";
    private static final String WRONG = "org.opentest4j.AssertionFailedError";

    @TempDir
    private Path home;

    private final StringBuilder log = new StringBuilder();

    @BeforeEach
    void makeTree() throws IOException {
        Files.createDirectories(home.resolve("build-tools"));
    }

    /** The outcome of a run: its colour and what the gate printed. */
    private record Verdict(boolean green, String text) {}

    private Verdict judge(int mavenStatus, boolean passesAgain) throws Exception {
        Path logFile = Files.writeString(home.resolve("run.log"), log.toString());
        String script = """
                set -euo pipefail
                PPMR_HOME=%1$s jdk17=none jdk25= left_out=()
                say() { printf 'said: %%s\\n' "$*"; }
                . %2$s/report.sh
                . %2$s/test.sh
                again() { printf 'again: %%s\\n' "$*"; %3$s; }
                failed=0
                judge gate %4$d %5$s again || failed=1
                print_summary "$failed" 61
                exit "$failed"
                """.formatted(home, SCRIPTS, passesAgain, mavenStatus, logFile);
        Command.CommandResult result = Command.of(List.of("bash", "-c", script)).run(LIMIT);
        return new Verdict(result.exitCode() == 0, result.output());
    }

    private void report(String plugin, String name, String... cases) throws IOException {
        log.append("[INFO] Running io.ppmr.").append(name).append('\n');
        Path folder = Files.createDirectories(home.resolve("ppmr-a/target/" + plugin + "-reports"));
        Files.writeString(folder.resolve("TEST-io.ppmr." + name + ".xml"), """
                <?xml version="1.0" encoding="UTF-8"?>
                <testsuite name="io.ppmr.%s" time="1.0" tests="%d" errors="%d" skipped="0" failures="0">
                %s
                </testsuite>
                """.formatted(
                name,
                cases.length,
                List.of(cases).stream().filter(one -> one.contains("<error")).count(),
                String.join("\n", cases)));
    }

    private static String passed(String name) {
        return "  <testcase name=\"%s\" classname=\"io.ppmr.x.SomeIT\" time=\"0.1\"/>".formatted(name);
    }

    private static String failed(String name, String type, String... further) {
        return """
                  <testcase name="%1$s" classname="io.ppmr.x.SomeIT" time="0.1">
                    <error message="it is:&#10;  &quot;so&quot;" type="%2$s"><![CDATA[%2$s: it is: "so"
                \tat io.ppmr.x.SomeIT.%1$s(SomeIT.java:1)
                %3$s
                ]]></error>
                  </testcase>""".formatted(name, type, String.join("\n", further));
    }

    @Test
    void shouldBeGreenWhenEveryTestPassed() throws Exception {
        report("failsafe", "x.SomeIT", passed("shouldA"), passed("shouldB"));
        Verdict verdict = judge(0, true);
        assertTrue(verdict.green(), verdict.text());
        assertTrue(verdict.text().contains("ppmr test: PASSED after 1 min 1 s"), verdict.text());
        assertTrue(verdict.text().contains("gate: passed: 2 tests, 0 failed"), verdict.text());
        assertFalse(verdict.text().contains("again:"), verdict.text());
    }

    @Test
    void shouldBeGreenAndNameTheTestAsUnstableWhenItWasTooSlowAndPassesByItself() throws Exception {
        report("failsafe", "x.SomeIT", passed("shouldA"), failed("shouldB{Case}[2]", LATE));
        Verdict verdict = judge(0, true);
        assertTrue(verdict.green(), verdict.text());
        String log = home.resolve("target/again-SomeIT.shouldB.log").toString();
        assertTrue(verdict.text().contains("again: " + log + " ppmr-a io.ppmr.x.SomeIT shouldB"), verdict.text());
        List<String> lines = verdict.text().lines().toList();
        String last = lines.get(lines.size() - 1);
        assertTrue(last.startsWith("  unstable gate: SomeIT.shouldB: it is: \"so\"; passed by itself: " + log), last);
    }

    @Test
    void shouldBeRedWhenATestThatWasTooSlowFailsByItself() throws Exception {
        report("failsafe", "x.SomeIT", failed("shouldB", LATE));
        Verdict verdict = judge(0, false);
        assertFalse(verdict.green(), verdict.text());
        assertTrue(verdict.text().contains("SomeIT.shouldB: too slow, then failed by itself"), verdict.text());
    }

    @Test
    void shouldBeRedAtOnceWhenATestSawAWrongResult() throws Exception {
        report("failsafe", "x.SomeIT", failed("shouldA", WRONG), failed("shouldB", LATE));
        Verdict verdict = judge(0, true);
        assertFalse(verdict.green(), verdict.text());
        assertFalse(verdict.text().contains("again:"), verdict.text());
        assertTrue(verdict.text().contains("failed   gate: SomeIT.shouldA: it is: \"so\""), verdict.text());
        assertTrue(verdict.text().contains("SomeIT.shouldB, too slow"), verdict.text());
    }

    @Test
    void shouldBeRedAtOnceWhenTheCleanUpOfASlowTestSawADeadService() throws Exception {
        report(
                "failsafe",
                "x.SomeIT",
                failed("shouldB", LATE, "\tSuppressed: java.io.IOException: the target crashed with status 3"));
        Verdict verdict = judge(0, true);
        assertFalse(verdict.green(), verdict.text());
        assertFalse(verdict.text().contains("again:"), verdict.text());
        assertTrue(verdict.text().contains("the target crashed with status 3"), verdict.text());
    }

    @Test
    void shouldBeRedAtOnceWhenAUnitTestWasTooSlow() throws Exception {
        report("surefire", "x.SomeTest", failed("shouldB", LATE));
        Verdict verdict = judge(0, true);
        assertFalse(verdict.green(), verdict.text());
        assertFalse(verdict.text().contains("again:"), verdict.text());
    }

    @Test
    void shouldBeRedWhenMoreThanTwoTestsWereTooSlow() throws Exception {
        report("failsafe", "x.SomeIT", failed("shouldA", LATE), failed("shouldB", LATE), failed("shouldC", LATE));
        Verdict verdict = judge(0, true);
        assertFalse(verdict.green(), verdict.text());
        assertFalse(verdict.text().contains("again:"), verdict.text());
    }

    @Test
    void shouldBeRedWhenATestThatIsKnownAsUnstableWasTooSlowAgain() throws Exception {
        Files.writeString(
                home.resolve("build-tools/unstable.txt"), "# a list\nSomeIT.shouldB  2026-01-01  a port is taken\n");
        report("failsafe", "x.SomeIT", failed("shouldB", LATE), passed("shouldA"));
        Verdict verdict = judge(0, true);
        assertFalse(verdict.green(), verdict.text());
        assertTrue(verdict.text().contains("known as unstable since before"), verdict.text());
    }

    @Test
    void shouldBeRedWhenATestJvmLeftNoReport() throws Exception {
        report("failsafe", "x.SomeIT", passed("shouldA"));
        log.append("[INFO] Running io.ppmr.x.CrashedIT\n");
        Verdict verdict = judge(0, true);
        assertFalse(verdict.green(), verdict.text());
        assertTrue(verdict.text().contains("CrashedIT: its JVM crashed"), verdict.text());
    }

    @Test
    void shouldBeRedWhenTheBuildFailedOrNoTestRan() throws Exception {
        report("failsafe", "x.SomeIT", passed("shouldA"));
        Verdict broken = judge(1, true);
        assertFalse(broken.green(), broken.text());
        assertTrue(broken.text().contains("FAILED in the build, not in a test"), broken.text());
        Files.delete(home.resolve("ppmr-a/target/failsafe-reports/TEST-io.ppmr.x.SomeIT.xml"));
        log.setLength(0);
        Verdict empty = judge(0, true);
        assertFalse(empty.green(), empty.text());
        assertEquals(1, empty.text().split("for no test ran", -1).length - 1, empty.text());
    }
}
