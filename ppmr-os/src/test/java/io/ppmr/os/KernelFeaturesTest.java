package io.ppmr.os;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.os.KernelFeatures.Feature;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What a kernel is said to have, by the recording of a Linux 3.10 node and by what newer ones show. */
class KernelFeaturesTest {
    private static final Path RECORDED = Path.of("src/test/resources/linux-3.10");

    @TempDir
    private Path proc;

    private Path self;

    @BeforeEach
    void showTheRecordedNode() throws Exception {
        self = Files.createDirectory(proc.resolve("self"));
        for (String name : Files.readAllLines(RECORDED.resolve("pid-ls"))) {
            Path recorded = RECORDED.resolve("pid-" + name);
            Files.write(self.resolve(name), Files.exists(recorded) ? Files.readAllBytes(recorded) : new byte[0]);
        }
        Files.copy(RECORDED.resolve("meminfo"), proc.resolve("meminfo"));
    }

    @Test
    void shouldMissEverythingWhenTheNodeIsTheRecordedOne() {
        KernelFeatures kernel = KernelFeatures.read(proc, number -> number < 314);
        assertEquals(List.of(Feature.values()), kernel.missing());
        for (Feature feature : Feature.values()) {
            assertFalse(kernel.has(feature));
            assertTrue(kernel.lacks(feature).contains("Linux " + feature.since()), kernel.lacks(feature));
            assertFalse(feature.olderWay().isBlank());
        }
    }

    @Test
    void shouldHaveWhatADistributionHasAddedWhateverTheRelease() throws Exception {
        Files.writeString(proc.resolve("meminfo"), Files.readString(proc.resolve("meminfo")) + "MemAvailable: 8 kB\n");
        KernelFeatures kernel = KernelFeatures.read(proc, number -> false);
        assertTrue(kernel.has(Feature.MEM_AVAILABLE));
        assertFalse(kernel.has(Feature.NSPID));
    }

    @Test
    void shouldHaveEverythingWhenAKernelShowsAndAnswersAll() throws Exception {
        Files.writeString(proc.resolve("meminfo"), "MemAvailable: 8 kB\n");
        Files.writeString(self.resolve("status"), "NSpid:\t1\nRssAnon:\t 8 kB\n");
        Files.createFile(self.resolve("smaps_rollup"));
        Files.createFile(self.resolve("schedstat"));
        assertEquals(List.of(), KernelFeatures.read(proc, number -> true).missing());
        assertFalse(KernelFeatures.read(proc, number -> number == 434).has(Feature.PIDFD), "a half is none");
    }

    @Test
    void shouldAskThisNodesKernelOnce() {
        assertEquals(System.getProperty("os.version"), KernelFeatures.here().release());
        assertTrue(KernelFeatures.here() == KernelFeatures.here());
    }

    @Test
    void shouldNameWhatItIsMadeOf() {
        Set<Feature> some = EnumSet.of(Feature.NSPID, Feature.PIDFD);
        KernelFeatures kernel = KernelFeatures.of("4.18.0-553.el8", some);
        assertTrue(kernel.has(Feature.PIDFD));
        assertEquals(
                "it needs Linux 5.9 or newer, and this node's 4.18.0-553.el8 has no close_range",
                kernel.lacks(Feature.CLOSE_RANGE));
    }

    @Test
    void shouldReadTheRecordedStat() throws Exception {
        String line = Files.readString(RECORDED.resolve("pid-stat"), StandardCharsets.ISO_8859_1);
        assertEquals(new ProcStat(84, "sleep", 'S', 75, 0, 4202496, 31, 495), ProcStat.parse(line));
    }
}
