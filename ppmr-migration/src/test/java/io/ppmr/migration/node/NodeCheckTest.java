package io.ppmr.migration.node;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.protocol.control.Finding;
import io.ppmr.protocol.control.NodeFacts;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Tests a node whose {@code proc}, {@code sys} and {@code dev} are files of the test. */
class NodeCheckTest {
    private static final long MIB = 1 << 20;

    @TempDir
    private Path root;

    @BeforeEach
    void makeNode() throws IOException {
        write("proc/self/status", "Name:\tjava\nUid:\t0\t0\t0\t0\nCapEff:\t000001ffffffffff\n");
        write("proc/self/limits", "Limit  Soft  Hard  Units\nMax locked memory         unlimited  unlimited  bytes\n");
        write("dev/fuse", "");
        write("usr/lib/libfuse.so.2", "");
        write("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu sse2 hypervisor avx512f smep popcnt\n");
        write("proc/meminfo", "MemTotal: 8 kB\nMemAvailable:    2048 kB\n");
        write("proc/sys/kernel/hostname", "n1\n");
        write("proc/sys/kernel/osrelease", "6.1.0-9\n");
    }

    private void write(String file, String text) throws IOException {
        Path path = root.resolve(file);
        Files.createDirectories(path.getParent());
        Files.writeString(path, text);
    }

    private Finding the(String check) {
        NodeCheck.Wanted wanted =
                new NodeCheck.Wanted(8 * MIB, root.resolve("work"), Optional.of(root), MIB, Map.of(), true);
        return NodeCheck.findings(root, wanted).stream()
                .filter(finding -> finding.check().equals(check))
                .findFirst()
                .orElseThrow();
    }

    private void assertFinding(Finding.Level level, String check, String words) {
        Finding finding = the(check);
        assertEquals(level, finding.level(), finding.toString());
        assertTrue(finding.text().contains(words), finding.text());
        assertEquals(level == Finding.Level.OK, finding.remedy().isEmpty(), finding.toString());
    }

    @Test
    void shouldBeContentWhenNothingIsWrong() {
        for (String check : List.of(
                "account", "fuse-device", "fuse-library", "fuse-timeout", "rdma", "memlock", "work", "staging")) {
            assertEquals(Finding.Level.OK, the(check).level(), the(check).toString());
        }
    }

    @Test
    void shouldCompareStagingWithMemoryWhenItIsInMemoryOfItsOwn() {
        for (long bytes : new long[] {2 * MIB, 2 * MIB + 1}) {
            Finding finding = NodeCheck.findings(
                            root,
                            new NodeCheck.Wanted(
                                    8 * MIB, root.resolve("work"), Optional.empty(), bytes, Map.of(), true))
                    .stream()
                    .filter(one -> one.check().equals("staging"))
                    .findFirst()
                    .orElseThrow();
            assertEquals(bytes > 2 * MIB, finding.level() == Finding.Level.FAIL, finding.toString());
            assertTrue(finding.text().contains("2 MiB are available"), finding.text());
        }
    }

    @Test
    void shouldSayWhatIsMissingWhenFuseIsNotThere() throws IOException {
        Files.delete(root.resolve("dev/fuse"));
        Files.delete(root.resolve("usr/lib/libfuse.so.2"));
        assertFinding(Finding.Level.FAIL, "fuse-device", "/dev/fuse");
        assertFinding(Finding.Level.FAIL, "fuse-library", "libfuse.so.2");
        write("etc/ld.so.cache", "glibc-ld.so.cache1.1 libfuse.so.2 /opt/lib/libfuse.so.2");
        assertFinding(Finding.Level.OK, "fuse-library", "libfuse.so.2");
    }

    @Test
    void shouldFailWhenTheKernelLimitsRequests() throws IOException {
        write("proc/sys/fs/fuse/default_request_timeout", "0\n");
        write("proc/sys/fs/fuse/max_request_timeout", "120\n");
        assertFinding(Finding.Level.FAIL, "fuse-timeout", "fs.fuse.max_request_timeout = 120 s");
    }

    @Test
    void shouldFailWhenTheServiceMayNotMount() throws IOException {
        write("proc/self/status", "Uid:\t1000\t1000\t1000\t1000\nCapEff:\t0000000000000000\n");
        assertFinding(Finding.Level.FAIL, "account", "not root");
        write("proc/self/status", "Uid:\t0\t0\t0\t0\nCapEff:\t0000000000200000\n");
        assertFinding(Finding.Level.WARN, "account", "CAP_SYS_RESOURCE");
    }

    @Test
    void shouldJudgePortsAndLockedMemoryWhenThereIsAnRdmaDevice() throws IOException {
        write("proc/self/limits", "Max locked memory         8388608  8388608  bytes\n");
        assertFinding(Finding.Level.OK, "memlock", "no RDMA device is here");
        write("sys/class/infiniband/rxe0/ports/1/state", "4: ACTIVE\n");
        write("sys/class/infiniband/rxe0/ports/1/gids/0", "0000:0000:0000:0000:0000:0000:0000:0000\n");
        assertFinding(Finding.Level.WARN, "rdma", "rxe0/1 is ACTIVE and has no GID");
        write("sys/class/infiniband/rxe0/ports/1/gids/1", "fe80:0000:0000:0000:0000:0000:0000:0001\n");
        assertFinding(Finding.Level.OK, "rdma", "rxe0/1 is up");
        assertFinding(Finding.Level.FAIL, "memlock", "limit on locked memory is 8388608 bytes");
        write("sys/class/infiniband/rxe0/ports/1/state", "1: DOWN\n");
        assertFinding(Finding.Level.WARN, "rdma", "rxe0/1 is DOWN");
        write("sys/class/infiniband/rxe0/node_type", "1: CA\n");
        assertFinding(Finding.Level.WARN, "rdma", "rxe0/1 is DOWN");
        write("sys/class/infiniband/rxe0/node_type", "4: RNIC\n");
        assertFinding(Finding.Level.OK, "rdma", "no device of InfiniBand or RoCE");
    }

    @Test
    void shouldReadTheFactsOfTheNode() throws IOException {
        write("sys/class/infiniband/rxe0/ports/1/state", "4: ACTIVE\n");
        write("sys/class/infiniband/rxe0/ports/1/gids/0", "fe80:0000:0000:0000:0000:0000:0000:0001\n");
        NodeFacts facts = new NodeProbe(root, 7, 8, List.of()).facts();
        assertEquals("n1", facts.hostName());
        assertEquals("6.1.0-9", facts.kernel());
        assertEquals(2 * MIB, facts.availableBytes());
        assertEquals(List.of("avx512f", "popcnt", "sse2"), facts.cpuFeatures());
        assertEquals(List.of("rxe0/1"), facts.rdmaPorts());
        assertTrue(new NodeProbe(Path.of("/"), 0, 0, List.of()).facts().libc().contains("GNU C Library"));
    }
}
