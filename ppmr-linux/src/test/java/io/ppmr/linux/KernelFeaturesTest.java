package io.ppmr.linux;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.linux.KernelFeatures.Feature;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Tests the probed features with the recording of a Linux 3.10 node and with files of newer kernels. */
class KernelFeaturesTest {
    private static final Path RECORDED = Path.of("src/test/resources/linux-3.10");

    @TempDir
    private Path proc;

    private Path self;

    @BeforeEach
    void showTheRecordedNode() throws Exception {
        self = Files.createDirectory(proc.resolve("self"));
        for (String name : Files.readAllLines(RECORDED.resolve("pid-ls"))) {
            if (name.equals("map_files")) {
                Files.createDirectory(self.resolve(name));
                continue;
            }
            Path recorded = RECORDED.resolve("pid-" + name);
            Files.write(self.resolve(name), Files.exists(recorded) ? Files.readAllBytes(recorded) : new byte[0]);
        }
        Files.copy(RECORDED.resolve("meminfo"), proc.resolve("meminfo"));
    }

    @Test
    void shouldMissAllOtherFeaturesWhenTheNodeIsTheRecordedOne() throws Exception {
        KernelFeatures kernel = KernelFeatures.read(proc, number -> number < 314);
        // The recorded kernel was built with CONFIG_CHECKPOINT_RESTORE; other kernels of its age were not.
        assertTrue(kernel.has(Feature.MAP_FILES));
        Files.delete(self.resolve("map_files"));
        kernel = KernelFeatures.read(proc, number -> number < 314);
        assertEquals(List.of(Feature.values()), kernel.missing());
        for (Feature feature : Feature.values()) {
            assertFalse(kernel.has(feature));
            assertTrue(
                    kernel.describeMissing(feature).contains("Linux " + feature.since()),
                    kernel.describeMissing(feature));
            assertFalse(feature.fallback().isBlank());
        }
    }

    @Test
    void shouldHaveFeaturesOfADistributionForAnyRelease() throws Exception {
        Files.writeString(proc.resolve("meminfo"), Files.readString(proc.resolve("meminfo")) + "MemAvailable: 8 kB\n");
        KernelFeatures kernel = KernelFeatures.read(proc, number -> false);
        assertTrue(kernel.has(Feature.MEM_AVAILABLE));
        assertFalse(kernel.has(Feature.NSPID));
    }

    @Test
    void shouldHaveEverythingWhenAKernelShowsAndAnswersAll() throws Exception {
        Files.writeString(proc.resolve("meminfo"), "MemAvailable: 8 kB\n");
        Files.writeString(self.resolve("status"), "NSpid:\t1\nRssAnon:\t 8 kB\n");
        Files.writeString(self.resolve("smaps_rollup"), "Pss:  8 kB\nPss_Anon:  8 kB\n");
        Files.createFile(self.resolve("schedstat"));
        showCgroups("/");
        assertEquals(List.of(), KernelFeatures.read(proc, number -> true).missing());
        assertFalse(
                KernelFeatures.read(proc, number -> number == 434).has(Feature.PIDFD),
                "one of the two calls is not enough");
    }

    private Path showCgroups(String own) throws Exception {
        Path mount = Files.createDirectories(proc.resolve("cgroups"));
        Files.writeString(
                self.resolve("mountinfo"),
                "30 22 0:27 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n40 30 0:37 / " + mount
                        + " rw - cgroup2 cgroup2 rw\n");
        Files.writeString(self.resolve("cgroup"), "7:blkio:/x\n0::" + own + "\n");
        return mount;
    }

    @Test
    void shouldLookForTheFreezerBelowTheRootOfAllCgroups() throws Exception {
        Path mount = showCgroups("/");
        assertTrue(freezer(), "there is no cgroup yet");
        Path child = Files.createDirectory(mount.resolve("a"));
        assertFalse(freezer(), "a cgroup without a freezer: Linux 4.5 to 5.1");
        Files.createFile(child.resolve("cgroup.freeze"));
        assertTrue(freezer());
        Files.delete(child.resolve("cgroup.freeze"));
        showCgroups("/b/c");
        assertFalse(freezer());
        Files.createFile(Files.createDirectories(mount.resolve("b/c")).resolve("cgroup.freeze"));
        assertTrue(freezer(), "the process's own cgroup has a freezer");
        Files.writeString(self.resolve("mountinfo"), "40 30 0:37 /b " + mount + " rw - cgroup2 cgroup2 rw\n");
        assertFalse(freezer(), "a part of the tree is not the tree");
    }

    private boolean freezer() {
        return KernelFeatures.read(proc, number -> false).has(Feature.FREEZER);
    }

    @Test
    void shouldIgnoreSumsWithoutTheKindOfMemory() throws Exception {
        Files.writeString(self.resolve("smaps_rollup"), "Pss:  8 kB\n");
        assertFalse(KernelFeatures.read(proc, number -> false).has(Feature.SMAPS_ROLLUP), "Linux 4.14 to 5.2");
    }

    @Test
    void shouldProbeThisNodesKernelOnce() {
        assertEquals(System.getProperty("os.version"), KernelFeatures.here().release());
        assertTrue(KernelFeatures.here() == KernelFeatures.here());
    }

    @Test
    void shouldNameItsFeatures() {
        Set<Feature> some = EnumSet.of(Feature.NSPID, Feature.PIDFD);
        KernelFeatures kernel = KernelFeatures.of("4.18.0-553.el8", some);
        assertTrue(kernel.has(Feature.PIDFD));
        assertEquals(
                "it needs Linux 5.9 or newer, and this node's 4.18.0-553.el8 has no close_range",
                kernel.describeMissing(Feature.CLOSE_RANGE));
    }

    @Test
    void shouldReadTheRecordedStat() throws Exception {
        String line = Files.readString(RECORDED.resolve("pid-stat"), StandardCharsets.ISO_8859_1);
        assertEquals(new ProcStat(84, "sleep", 'S', 75, 0, 4202496, 31, 495), ProcStat.parse(line));
    }
}
