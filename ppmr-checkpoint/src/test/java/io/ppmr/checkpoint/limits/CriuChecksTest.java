package io.ppmr.checkpoint.limits;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.sharing.Holder;
import io.ppmr.checkpoint.sharing.Refusal;
import java.util.List;
import java.util.OptionalLong;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class CriuChecksTest {
    private static final Holder MEMBER = new Holder(100, "solver", 3);

    @ParameterizedTest
    @CsvSource({"1048576, 1048576", "2k, 2048", "16M, 16777216", "1G, 1073741824"})
    void shouldReadASizeAsCriuDoes(String text, long bytes) {
        assertEquals(OptionalLong.of(bytes), CriuChecks.bytes(text));
    }

    @ParameterizedTest
    @CsvSource({"''", "M", "-1", "1T", "99999999999"})
    void shouldReadNoSizeWhereThereIsNone(String text) {
        assertEquals(OptionalLong.empty(), CriuChecks.bytes(text));
    }

    private static String status(String... lines) {
        return "Name:\tsolver\n" + String.join("\n", lines) + "\n";
    }

    private static List<Refusal> sandboxes(String status) {
        Sandboxes look = new Sandboxes(true);
        look.thread(MEMBER, 101, status);
        return look.refusals();
    }

    @Test
    void shouldRefuseWhatMayBeInASandbox() {
        Refusal refusal = sandboxes(status("NoNewPrivs:\t1", "Seccomp:\t0")).get(0);
        assertEquals(3, refusal.rank());
        assertTrue(refusal.reason().contains("PID 100 (solver)"), refusal.reason());
        assertTrue(refusal.remedy().contains("landlock = \"allow\""), refusal.remedy());
    }

    @Test
    void shouldRefuseNoThreadThatFiltersItsSystemCallsOrMayGainPrivileges() {
        assertEquals(List.of(), sandboxes(status("NoNewPrivs:\t1", "Seccomp:\t2")));
        assertEquals(List.of(), sandboxes(status("NoNewPrivs:\t0", "Seccomp:\t0")));
    }

    @Test
    void shouldNotRefuseASandboxWhenTheLogIsToSaySo() {
        Sandboxes look = new Sandboxes(false);
        look.thread(MEMBER, 101, status("NoNewPrivs:\t1", "Seccomp:\t0"));
        assertEquals(List.of(), look.refusals());
    }

    @ParameterizedTest
    @CsvSource({
        "Speculation_Store_Bypass:\tthread mitigated, 1",
        "Speculation_Store_Bypass:\tthread force mitigated, 1",
        "SpeculationIndirectBranch:\tconditional disabled, 1",
        "SpeculationIndirectBranch:\tconditional enabled, 0",
        "Speculation_Store_Bypass:\tthread vulnerable, 0",
        "Speculation_Store_Bypass:\tglobally mitigated, 0"
    })
    void shouldRefuseAThreadThatHasTurnedSpeculationOff(String line, int refusals) {
        ExecutionModes look = new ExecutionModes();
        look.thread(MEMBER, 101, status("Seccomp:\t0", line));
        assertEquals(refusals, look.refusals().size());
    }

    /** Filters of system calls disable it on some kernels, and CRIU writes the filters. */
    @Test
    void shouldRefuseNoSpeculationThatAFilterHasTurnedOff() {
        ExecutionModes look = new ExecutionModes();
        look.thread(MEMBER, 101, status("Seccomp:\t2", "Speculation_Store_Bypass:\tthread force mitigated"));
        assertEquals(List.of(), look.refusals());
    }
}
