package io.ppmr.migration.node;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.Checkpointer.RestartNeeds;
import io.ppmr.migration.node.PairCheck.TargetCapacity;
import io.ppmr.protocol.control.Finding;
import io.ppmr.protocol.control.JobFacts;
import io.ppmr.protocol.control.NodeFacts;
import io.ppmr.protocol.data.ReadingMode;
import java.util.List;
import org.junit.jupiter.api.Test;

class PairCheckTest {
    private static final long MIB = 1 << 20;
    private static final RestartNeeds CRIU = new RestartNeeds(true, false);

    private static NodeFacts node(String kernel, String libc, long clockMs, long availableMib, String... features) {
        return new NodeFacts(
                "n",
                "amd64",
                kernel,
                libc,
                "17",
                clockMs,
                availableMib * MIB,
                100 * MIB,
                131072,
                List.of(features),
                List.of(),
                List.of());
    }

    /** A node without other migrations. */
    private static final TargetCapacity IDLE = new TargetCapacity(false, 0, "");

    private static NodeFacts usual() {
        return node("6.1.0-9", "glibc 2.36", 0, 1000, "avx", "avx2");
    }

    private static Finding the(String check, List<Finding> findings) {
        return findings.stream()
                .filter(finding -> finding.check().equals(check))
                .findFirst()
                .orElseThrow();
    }

    private static Finding compare(String check, NodeFacts source, NodeFacts target) {
        return the(check, PairCheck.findings(source, JobFacts.NONE, target, CRIU, ReadingMode.RETAINED, IDLE));
    }

    private static void assertFinding(Finding.Level level, String words, Finding finding) {
        assertEquals(level, finding.level(), finding.toString());
        assertTrue(finding.text().contains(words), finding.text());
        assertEquals(level == Finding.Level.OK, finding.remedy().isEmpty(), finding.toString());
    }

    @Test
    void shouldBeContentWhenTheNodesAreAlike() {
        for (Finding finding :
                PairCheck.findings(usual(), JobFacts.NONE, usual(), RestartNeeds.UNKNOWN, ReadingMode.STREAMED, IDLE)) {
            assertEquals(Finding.Level.OK, finding.level(), finding.toString());
        }
    }

    @Test
    void shouldFailWhenTheTargetLacksAnInstruction() {
        NodeFacts source = node("6.1", "g", 0, 1, "avx", "avx512f", "avx512bw");
        assertFinding(Finding.Level.FAIL, "lacks avx512f avx512bw,", compare("cpu", source, usual()));
        assertFinding(
                Finding.Level.OK,
                "every instruction",
                compare("cpu", usual(), node("6.1", "g", 0, 1, "avx", "avx2", "avx512f")));
    }

    @Test
    void shouldWarnWhenTheTargetLacksWhatIsAMatterOfSpeed() {
        NodeFacts source = node("6.1", "g", 0, 1, "avx", "avx2", "erms", "fsrm");
        assertFinding(Finding.Level.WARN, "erms fsrm, which the source's reports", compare("cpu", source, usual()));
        assertFinding(Finding.Level.OK, "every instruction", compare("cpu", usual(), source));
        NodeFacts old = node("6.1", "g", 0, 1, "avx");
        assertFinding(Finding.Level.FAIL, "lacks avx2,", compare("cpu", source, old));
    }

    @Test
    void shouldKnowTheInstructionsOutOfWhatTheKernelSays() {
        assertEquals(
                List.of("avx2", "erms", "fsrm", "sse4_2"),
                CpuFeatures.of(List.of("processor\t: 0", "flags\t\t: fpu vme erms sse4_2 hypervisor avx2 fsrm")));
        assertEquals(List.of("asimd", "crc32"), CpuFeatures.of(List.of("Features\t: crc32 asimd")));
    }

    @Test
    void shouldWarnWhenTheTargetsKernelIsOlder() {
        assertFinding(
                Finding.Level.WARN, "older", compare("kernel", node("6.10.2", "g", 0, 1), node("6.9.9", "g", 0, 1)));
        assertFinding(Finding.Level.OK, "6.9", compare("kernel", node("6.9.9", "g", 0, 1), node("6.10.2", "g", 0, 1)));
    }

    @Test
    void shouldWarnWhenTheLibraryDiffers() {
        NodeFacts other = node("6.1.0-9", "glibc 2.28", 0, 1000, "avx", "avx2");
        assertFinding(Finding.Level.WARN, "glibc 2.28", compare("libc", usual(), other));
        JobFacts job = new JobFacts("criu", 0, 0, List.of());
        assertFinding(
                Finding.Level.WARN,
                "glibc 2.28",
                the("libc", PairCheck.findings(usual(), job, other, CRIU, ReadingMode.RETAINED, IDLE)));
    }

    @Test
    void shouldFailWhenTheImageHasNoRoom() {
        JobFacts job = new JobFacts("criu", 200 * MIB, 0, List.of());
        List<Finding> retained = PairCheck.findings(usual(), job, usual(), CRIU, ReadingMode.RETAINED, IDLE);
        assertFinding(Finding.Level.FAIL, "200 MiB has to wait", the("staging", retained));
        assertFinding(Finding.Level.OK, "1000 MiB", the("memory", retained));
        NodeFacts small = node("6.1.0-9", "glibc 2.36", 0, 199, "avx", "avx2");
        List<Finding> streamed = PairCheck.findings(usual(), job, small, CRIU, ReadingMode.STREAMED, IDLE);
        assertFinding(Finding.Level.FAIL, "199 MiB are available", the("memory", streamed));
        assertTrue(streamed.stream().noneMatch(finding -> finding.check().equals("staging")));
    }

    @Test
    void shouldCountTheMapOfAnImagesPagesAsMemory() {
        long tib = 1L << 40;
        JobFacts job = new JobFacts("criu", tib, 0, List.of());
        NodeFacts tight = new NodeFacts(
                "n", "amd64", "6.1", "g", "17", 0, tib + 31 * MIB, tib, 131072, List.of(), List.of(), List.of());
        assertFinding(
                Finding.Level.FAIL,
                "are available here",
                the("memory", PairCheck.findings(tight, job, tight, CRIU, ReadingMode.RETAINED, IDLE)));
        assertFinding(
                Finding.Level.OK,
                "are available here",
                the("memory", PairCheck.findings(tight, job, tight, CRIU, ReadingMode.STREAMED, IDLE)));
    }

    @Test
    void shouldFailWhenOthersHaveBeenPromisedTheRoom() {
        JobFacts job = new JobFacts("criu", 90 * MIB, 0, List.of());
        TargetCapacity busy = new TargetCapacity(true, 900 * MIB, ", for the rest of it is others'");
        List<Finding> found = PairCheck.findings(usual(), job, usual(), CRIU, ReadingMode.RETAINED, busy);
        assertFinding(
                Finding.Level.FAIL,
                "the job has 90 MiB, and as much again for its image, since staging is in memory, 1000 MiB are"
                        + " available here, of which 900 MiB are for migrations under way",
                the("memory", found));
        assertFinding(Finding.Level.OK, "MiB, for the rest of it is others'", the("staging", found));
        TargetCapacity quiet = new TargetCapacity(false, 900 * MIB, "");
        assertFinding(
                Finding.Level.OK,
                "900 MiB are for",
                the("memory", PairCheck.findings(usual(), job, usual(), CRIU, ReadingMode.RETAINED, quiet)));
    }

    @Test
    void shouldFailWhenAPidIsTakenThatMustBeFree() {
        JobFacts job = new JobFacts("criu", 0, 0, List.of(1, Integer.MAX_VALUE));
        RestartNeeds pids = new RestartNeeds(false, true);
        assertFinding(
                Finding.Level.FAIL,
                "[1]",
                the("pids", PairCheck.findings(usual(), job, usual(), pids, ReadingMode.RETAINED, IDLE)));
        assertTrue(PairCheck.findings(usual(), job, usual(), CRIU, ReadingMode.RETAINED, IDLE).stream()
                .noneMatch(finding -> finding.check().equals("pids")));
    }
}
