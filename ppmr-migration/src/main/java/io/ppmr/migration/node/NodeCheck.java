package io.ppmr.migration.node;

import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.Checkpointer.Availability;
import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.linux.KernelFeatures;
import io.ppmr.protocol.control.Finding;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Stream;

/**
 * Checks whether this node can run a service of ppmr, and changes nothing. docs/reference/doctor.md has every
 * check with its
 * reason. Used once, by one thread.
 */
public final class NodeCheck {
    private static final String LIBRARY = "libfuse.so.2";
    private static final List<String> LIBRARY_FOLDERS =
            List.of("lib", "lib64", "usr/lib", "usr/lib64", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu");
    private static final int LEAST_JDK = 17;
    private static final long WORK_BYTES = 64L << 20;
    private static final long MIB = 1 << 20;
    private static final int CAP_SYS_ADMIN = 21;
    private static final int CAP_SYS_RESOURCE = 24;

    private final Path root;
    private final Wanted wanted;
    private final List<Finding> findings = new ArrayList<>();

    /**
     * The needs of a configuration.
     *
     * @param poolBytes memory that an RDMA device would lock; the default without a configuration
     * @param workDirectory directory for the checkpointers' own files
     * @param stagingDirectory directory of a target's staging; empty at a source, and for staging in memory
     * @param stagingBytes limit of staging, in memory for all migrations together
     * @param checkpointers names of the checkpointers that must run
     * @param configured whether a configuration names these; otherwise a missing checkpointer is no failure
     */
    public record Wanted(
            long poolBytes,
            Path workDirectory,
            Optional<Path> stagingDirectory,
            long stagingBytes,
            Map<String, Checkpointer> checkpointers,
            boolean configured) {}

    NodeCheck(Path root, Wanted wanted) {
        this.root = root;
        this.wanted = wanted;
    }

    /** Returns all findings, in the order of docs/reference/doctor.md. {@code root} is {@code /} except in tests. */
    public static List<Finding> findings(Path root, Wanted wanted) {
        NodeCheck check = new NodeCheck(root, wanted);
        check.account();
        check.kernel(KernelFeatures.here());
        check.jdk();
        check.programs();
        check.fuseDevice();
        check.fuseLibrary();
        check.fuseTimeouts();
        List<NodeProbe.RdmaPort> ports = NodeProbe.RdmaPort.all(root);
        check.rdma(ports);
        check.memlock(ports);
        check.checkpointers();
        check.checkRoom("work", wanted.workDirectory(), WORK_BYTES, "name another work_directory");
        wanted.stagingDirectory()
                .ifPresent(directory -> check.checkRoom(
                        "staging", directory, wanted.stagingBytes(), "free memory or disk, or lower staging.limit"));
        if (wanted.stagingDirectory().isEmpty() && wanted.stagingBytes() > 0) {
            check.stagingMemory();
        }
        check.clock();
        return check.findings;
    }

    /** Returns the findings so far. */
    List<Finding> found() {
        return List.copyOf(findings);
    }

    private void account() {
        boolean isRoot = status("Uid:")
                .map(line -> line.split("\\s+", -1)[1].equals("0"))
                .orElse(false);
        if (!isRoot || !hasCapability(CAP_SYS_ADMIN)) {
            findings.add(Finding.fail(
                    "account",
                    isRoot ? "root without CAP_SYS_ADMIN" : "not root",
                    "run the services as root with CAP_SYS_ADMIN, because they mount and make namespaces"));
        } else if (!hasCapability(CAP_SYS_RESOURCE)) {
            findings.add(Finding.warn(
                    "account",
                    "root without CAP_SYS_RESOURCE: CRIU restores no process whose limits are above the service's own,"
                            + " and streams pages only if fs.pipe-max-size is 4 MiB",
                    "let the container or unit keep that capability"));
        } else {
            findings.add(Finding.ok("account", "root, with the needed capabilities"));
        }
    }

    /**
     * Reports features that the kernel lacks. This is neither a failure nor a warning, because there is an older way.
     * The finding has its cost.
     */
    void kernel(KernelFeatures kernel) {
        if (kernel.missing().isEmpty()) {
            findings.add(Finding.ok("kernel", "Linux " + kernel.release() + " has all optional features"));
        }
        for (KernelFeatures.Feature feature : kernel.missing()) {
            String text = "Linux " + kernel.release() + " has no " + feature.label() + " (" + feature.since() + "): "
                    + feature.fallback();
            findings.add(
                    feature == KernelFeatures.Feature.NSPID
                            ? Finding.warn("kernel", text, "move jobs with blcr or a command on this node")
                            : Finding.ok("kernel", text));
        }
    }

    private boolean hasCapability(int number) {
        return status("CapEff:")
                .map(line -> (Long.parseUnsignedLong(line.split("\\s+", -1)[1], 16) >> number & 1) == 1)
                .orElse(false);
    }

    private Optional<String> status(String key) {
        return lines("proc/self/status").stream()
                .filter(line -> line.startsWith(key))
                .findFirst();
    }

    private void jdk() {
        String version = System.getProperty("java.version") + " (" + System.getProperty("java.vendor") + ")";
        if (Runtime.version().feature() < LEAST_JDK) {
            findings.add(Finding.fail("jdk", version, "install a JDK 17 or later"));
        } else if (ModuleLayer.boot().findModule("jdk.unsupported").isEmpty()) {
            findings.add(Finding.fail("jdk", version + " without jdk.unsupported", "use a JDK that has that module"));
        } else {
            findings.add(Finding.ok("jdk", version));
        }
    }

    private void programs() {
        Optional<String> missing = Optional.ofNullable(System.getProperty(NativePrograms.DIRECTORY_PROPERTY))
                .map(directory -> new NativePrograms(Path.of(directory)).missing())
                .orElse(Optional.of("the property " + NativePrograms.DIRECTORY_PROPERTY + " is not set"));
        findings.add(missing.map(text -> Finding.fail("native", text, "build with gcc and make (./ppmr build)"))
                .orElse(Finding.ok("native", "the native helpers are there")));
    }

    private void fuseDevice() {
        Path device = root.resolve("dev/fuse");
        if (!Files.exists(device)) {
            findings.add(Finding.fail(
                    "fuse-device", "/dev/fuse is not there", "modprobe fuse; in a container, pass the device in"));
        } else if (!Files.isReadable(device) || !Files.isWritable(device)) {
            findings.add(Finding.fail("fuse-device", "/dev/fuse may not be opened", "run as root, or chmod 0666"));
        } else {
            findings.add(Finding.ok("fuse-device", "/dev/fuse may be opened"));
        }
    }

    private void fuseLibrary() {
        boolean found = LIBRARY_FOLDERS.stream()
                        .anyMatch(folder -> Files.exists(root.resolve(folder).resolve(LIBRARY)))
                || cacheNames(LIBRARY);
        findings.add(Finding.failUnless(
                found,
                "fuse-library",
                LIBRARY + " is there",
                LIBRARY + " is not installed",
                "install the package libfuse2"));
    }

    private boolean cacheNames(String library) {
        Path cache = root.resolve("etc/ld.so.cache");
        try {
            return Files.exists(cache)
                    && Files.readString(cache, StandardCharsets.ISO_8859_1).contains(library);
        } catch (IOException e) {
            return false;
        }
    }

    private void fuseTimeouts() {
        List<String> set = new ArrayList<>();
        for (String name : List.of("default_request_timeout", "max_request_timeout")) {
            String value =
                    lines("proc/sys/fs/fuse/" + name).stream().findFirst().orElse("0");
            if (!value.trim().equals("0")) {
                set.add("fs.fuse." + name + " = " + value.trim() + " s");
            }
        }
        findings.add(Finding.failUnless(
                set.isEmpty(),
                "fuse-timeout",
                "no time limit on requests",
                String.join(", ", set) + ": the kernel would cut the connection while a restart waits for bytes",
                "sysctl -w fs.fuse.default_request_timeout=0 fs.fuse.max_request_timeout=0, and in /etc/sysctl.d"));
    }

    private void rdma(List<NodeProbe.RdmaPort> ports) {
        if (ports.isEmpty()) {
            findings.add(Finding.ok("rdma", "no device of InfiniBand or RoCE: bytes go over TCP"));
        }
        for (NodeProbe.RdmaPort port : ports) {
            if (port.isUp()) {
                findings.add(Finding.ok("rdma", port.name() + " is up and has a GID"));
            } else {
                findings.add(Finding.warn(
                        "rdma",
                        port.name() + " is " + port.state() + (port.hasGid() ? "" : " and has no GID"),
                        port.hasGid()
                                ? "check cable, switch and subnet manager"
                                : "give its network interface an address"));
            }
        }
    }

    private void memlock(List<NodeProbe.RdmaPort> ports) {
        String limit = lines("proc/self/limits").stream()
                .filter(line -> line.startsWith("Max locked memory"))
                .map(line -> line.substring("Max locked memory".length()).trim().split("\\s+", -1)[0])
                .findFirst()
                .orElse("unlimited");
        long neededBytes = wanted.poolBytes() * 2;
        if (limit.equals("unlimited") || Long.parseLong(limit) >= neededBytes) {
            findings.add(Finding.ok("memlock", "limit on locked memory: " + limit));
        } else if (ports.isEmpty()) {
            findings.add(Finding.ok("memlock", "no RDMA device is here, so no memory needs to be locked"));
        } else {
            findings.add(Finding.fail(
                    "memlock",
                    "limit on locked memory is " + limit + " bytes, and RDMA needs " + neededBytes,
                    "LimitMEMLOCK=infinity in the unit, or ulimit -l unlimited"));
        }
    }

    private void checkpointers() {
        wanted.checkpointers().forEach((name, checkpointer) -> {
            Availability found = checkpointer.probe();
            if (found.available()) {
                findings.add(Finding.ok("checkpointer", name + ": " + found.detail()));
            } else {
                Finding failure = Finding.fail("checkpointer", name + ": " + found.detail(), found.remedy());
                findings.add(wanted.configured() ? failure : failure.asWarning());
            }
        });
    }

    /** Checks whether the memory that staging may need is available now. */
    void stagingMemory() {
        long availableBytes = new NodeProbe(root, 0, 0, List.of()).availableBytes();
        String text = "staging may take " + wanted.stagingBytes() / MIB + " MiB of memory, and " + availableBytes / MIB
                + " MiB are available";
        findings.add(Finding.failUnless(
                availableBytes >= wanted.stagingBytes(),
                "staging",
                text,
                text,
                "free memory, lower staging.limit or migrations, or name a folder on a disk (staging.directory)"));
    }

    /**
     * Checks whether a directory can be written and has enough space. If it does not exist, its nearest existing parent
     * is checked.
     */
    private void checkRoom(String check, Path directory, long bytes, String remedy) {
        Path existing = Stream.iterate(directory.toAbsolutePath(), Path::getParent)
                .filter(Files::exists)
                .findFirst()
                .orElse(directory.getRoot());
        try {
            long usableBytes = Files.getFileStore(existing).getUsableSpace();
            if (!Files.isDirectory(existing) || !Files.isWritable(existing)) {
                findings.add(Finding.fail(check, existing + " cannot be written", remedy));
            } else {
                String free = usableBytes / MIB + " MiB free";
                findings.add(Finding.failUnless(
                        usableBytes >= bytes,
                        check,
                        directory + ": " + free,
                        directory + " has " + free + ", " + bytes / MIB + " MiB may be needed",
                        remedy));
            }
        } catch (IOException e) {
            findings.add(Finding.fail(check, existing + " cannot be inspected: " + e.getMessage(), remedy));
        }
    }

    /**
     * Checks for a clock before the system's installation. A clock that was never set often shows the year of its
     * firmware.
     */
    private void clock() {
        long nowMs = System.currentTimeMillis();
        long builtMs = root.resolve("etc/os-release").toFile().lastModified();
        String now = Instant.ofEpochMilli(nowMs).toString();
        findings.add(Finding.failUnless(
                nowMs >= builtMs,
                "clock",
                now,
                "the clock shows " + now + ", which is before this system's installation",
                "synchronise it (chrony, systemd-timesyncd)"));
    }

    private List<String> lines(String file) {
        return NodeProbe.lines(root.resolve(file));
    }
}
