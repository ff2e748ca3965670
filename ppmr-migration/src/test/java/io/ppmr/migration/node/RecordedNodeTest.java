package io.ppmr.migration.node;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.linux.KernelFeatures;
import io.ppmr.linux.KernelFeatures.Feature;
import io.ppmr.protocol.control.Finding;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Tests a Linux 3.10 node from its recording. */
class RecordedNodeTest {
    private static final Path RECORDED = Path.of("../ppmr-linux/src/test/resources/linux-3.10");
    private static final KernelFeatures RECORDED_KERNEL = KernelFeatures.of("3.10.108", Set.of());
    private static final long KIB = 1024;

    @TempDir
    private Path root;

    @BeforeEach
    void showTheNode() throws Exception {
        Files.createDirectories(root.resolve("proc/self"));
        Files.createDirectories(root.resolve("proc/sys/vm"));
        for (String file : List.of("meminfo", "cpuinfo", "filesystems", "stat", "vmstat")) {
            Files.copy(RECORDED.resolve(file), root.resolve("proc").resolve(file));
        }
        Files.copy(RECORDED.resolve("pid-limits"), root.resolve("proc/self/limits"));
        Files.copy(RECORDED.resolve("pid-status"), root.resolve("proc/self/status"));
        Path folder = root;
        for (String line : Files.readAllLines(RECORDED.resolve("sysctls"))) {
            if (line.endsWith(":")) {
                folder = Files.createDirectories(root.resolve(line.substring(1, line.length() - 1)));
            } else if (!line.isBlank() && !Files.exists(folder.resolve(line))) {
                Files.createFile(folder.resolve(line));
            }
        }
        Path fuse = root.resolve("sys/fs/fuse");
        for (String line : Files.readAllLines(RECORDED.resolve("sys-fs-fuse"))) {
            Files.createDirectories(fuse.resolve(line));
        }
    }

    private NodeProbe probe() {
        return new NodeProbe(root, 0, 128 << 10, List.of());
    }

    @Test
    void shouldReckonAvailableMemoryWhenTheKernelDoesNotSayIt() throws Exception {
        long freeKib = 2027408;
        String free = Files.readAllLines(RECORDED.resolve("vmstat")).get(0);
        assertEquals("nr_free_pages 506788", free);
        assertTrue(Math.abs(506788 * 4 - freeKib) < freeKib / 1000, "both files say the same");
        long fileKib = 2200 + 5644;
        assertEquals((freeKib + fileKib + 280) * KIB, probe().availableBytes(RECORDED_KERNEL), "without a mark");
        // The low mark is 5,000 KiB. Half of the file pages are kept, because that is less, and half of the slabs'.
        Files.writeString(root.resolve("proc/sys/vm/min_free_kbytes"), "4000\n");
        assertEquals((freeKib - 5000 + fileKib / 2 + 140) * KIB, probe().availableBytes(RECORDED_KERNEL));
        Files.writeString(root.resolve("proc/sys/vm/min_free_kbytes"), "40000000\n");
        assertEquals(0, probe().availableBytes(RECORDED_KERNEL), "never less than nothing");
    }

    @Test
    void shouldKnowTheProcessor() {
        assertEquals(
                List.of("cx16", "lahf_lm", "mmx", "pni", "popcnt", "sse", "sse2", "sse4_1", "sse4_2", "ssse3"),
                probe().facts().cpuFeatures());
    }

    @Test
    void shouldReckonAProcessFromItsMappings() throws Exception {
        Path process = Files.createDirectory(root.resolve("proc/84"));
        Files.copy(RECORDED.resolve("pid-status"), process.resolve("status"));
        Files.copy(RECORDED.resolve("pid-smaps"), process.resolve("smaps"));
        long kib = JobProbe.residentBytes(process, RECORDED_KERNEL) / KIB;
        assertTrue(kib > 0 && kib < 712, kib + " KiB of VmRSS, the rest being files'");
    }

    @Test
    void shouldTakeWhatTheKernelSaysWhenItSaysIt() throws Exception {
        KernelFeatures newer =
                KernelFeatures.of("6.1.0", Set.of(Feature.MEM_AVAILABLE, Feature.SMAPS_ROLLUP, Feature.RSS_ANON));
        Files.writeString(root.resolve("proc/meminfo"), "MemFree: 1 kB\nMemAvailable: 77 kB\n");
        assertEquals(77 * KIB, probe().availableBytes(newer));
        Path process = Files.createDirectory(root.resolve("proc/84"));
        Files.copy(RECORDED.resolve("pid-smaps"), process.resolve("smaps"));
        Files.writeString(process.resolve("smaps_rollup"), "Rss: 99 kB\nPss: 50 kB\nPss_Anon: 20 kB\nSwapPss: 3 kB\n");
        assertEquals(23 * KIB, JobProbe.residentBytes(process, newer));
    }

    @Test
    void shouldSayInTheDoctorsReportWhatTheKernelLacks() {
        NodeCheck check = new NodeCheck(
                root, new NodeCheck.Wanted(1 << 20, root.resolve("work"), Optional.empty(), 0, Map.of(), false));
        check.kernel(RECORDED_KERNEL);
        List<Finding> findings = check.found();
        assertEquals(KernelFeatures.Feature.values().length, findings.size());
        for (Finding finding : findings) {
            assertEquals("kernel", finding.check());
            assertTrue(finding.text().startsWith("Linux 3.10.108 has no "), finding.text());
            boolean refuses = finding.text().contains("NSpid");
            assertEquals(refuses ? Finding.Level.WARN : Finding.Level.OK, finding.level(), finding.text());
        }
    }

    @Test
    void shouldFindNothingElseWrongWithIt() {
        for (Finding finding : NodeCheck.findings(
                root, new NodeCheck.Wanted(1 << 20, root.resolve("work"), Optional.empty(), 0, Map.of(), true))) {
            if (List.of("account", "fuse-timeout", "rdma", "memlock").contains(finding.check())) {
                assertEquals(Finding.Level.OK, finding.level(), finding.toString());
            }
        }
    }

    @Test
    void shouldBeComparedWithEveryRecordedFile() throws Exception {
        Set<String> read = new TreeSet<>(Set.of(
                // Used here. vmstat agrees with meminfo, and no service uses stat.
                "meminfo",
                "cpuinfo",
                "vmstat",
                "stat",
                "sysctls",
                "sys-fs-fuse",
                "pid-limits",
                "pid-status",
                "pid-smaps",
                // Used by KernelFeaturesTest, RecordedNodeTest of ppmr-checkpoint, BlcrSessionIT and OldKernelIT.
                "pid-ls",
                "pid-stat",
                "pid-statm",
                "pid-maps",
                "pid-ns",
                "pid-fd",
                "pid-fdinfo-0",
                "filesystems",
                "children",
                "blcr-session",
                "README.md"));
        try (Stream<Path> files = Files.list(RECORDED)) {
            assertEquals(
                    read,
                    files.map(file -> file.getFileName().toString()).collect(Collectors.toCollection(TreeSet::new)));
        }
    }
}
