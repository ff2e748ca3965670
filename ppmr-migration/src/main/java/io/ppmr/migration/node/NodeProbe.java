package io.ppmr.migration.node;

import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.Checkpointer.Availability;
import io.ppmr.linux.KernelFeatures;
import io.ppmr.linux.KernelFeatures.Feature;
import io.ppmr.linux.ProcStat;
import io.ppmr.protocol.control.NodeFacts;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Reads the facts of a node from proc(5) and sysfs(5). It starts only the processes that probe checkpointers.
 * Immutable, for any thread.
 */
public final class NodeProbe {
    private static final Pattern MAPPED_LIBC = Pattern.compile("\\s(/\\S*/(?:libc\\.so\\.6|libc-[0-9.]+\\.so))$");
    private static final Pattern LIBC_BANNER = Pattern.compile("GNU C Library [^\\n\\x00]{1,120}");
    private static final int MOST_DIGITS = 18;
    private static final long KIB = 1024;

    /**
     * A port of an InfiniBand or RoCE device in {@code /sys/class/infiniband}. Its state can be read without any
     * library.
     *
     * @param name name as {@code DEVICE/PORT}
     * @param state the kernel's name of the link's state, such as {@code ACTIVE}
     * @param hasGid whether it has an address, without which no peer can connect
     */
    record RdmaPort(String name, String state, boolean hasGid) {
        private static final String NO_GID = "0000:0000:0000:0000:0000:0000:0000:0000";

        boolean isUp() {
            return state.equals("ACTIVE") && hasGid;
        }

        static List<RdmaPort> all(Path root) {
            List<RdmaPort> ports = new ArrayList<>();
            for (Path device : entries(root.resolve("sys/class/infiniband"))) {
                if (!isUsed(device)) {
                    continue;
                }
                for (Path port : entries(device.resolve("ports"))) {
                    String state =
                            lines(port.resolve("state")).stream().findFirst().orElse("unknown");
                    boolean gid = entries(port.resolve("gids")).stream().anyMatch(file -> firstLine(file)
                            .map(line -> !line.equals(NO_GID))
                            .orElse(false));
                    ports.add(new RdmaPort(
                            device.getFileName() + "/" + port.getFileName(),
                            state.replaceFirst("^\\d+:\\s*", ""),
                            gid));
                }
            }
            return ports;
        }

        /**
         * Returns true if the type fits. iWARP, among others, does not. Without a type from the kernel, the device
         * counts as usable.
         */
        private static boolean isUsed(Path device) {
            return lines(device.resolve("node_type")).stream().allMatch(line -> line.startsWith("1:"));
        }

        /** Returns the first line, or none if the file cannot be read. Unused entries of a GID table cannot be read. */
        private static Optional<String> firstLine(Path file) {
            try {
                return lines(file).stream().findFirst();
            } catch (UncheckedIOException e) {
                return Optional.empty();
            }
        }
    }

    private final Path root;
    private final long stagingBytes;
    private final int chunkBytes;
    private final List<Checkpointer> checkpointers;
    /** Read once, by the first thread that needs it, because two megabytes are searched for it. */
    private volatile String libc;

    /**
     * @param root directory of {@code proc} and {@code sys}; {@code /} except in tests
     *
     * @param stagingBytes room for retained images here
     * @param chunkBytes chunk size of the node's pool
     * @param checkpointers the node's checkpointers
     */
    public NodeProbe(Path root, long stagingBytes, int chunkBytes, List<Checkpointer> checkpointers) {
        this.root = root;
        this.stagingBytes = stagingBytes;
        this.chunkBytes = chunkBytes;
        this.checkpointers = List.copyOf(checkpointers);
    }

    /** Returns the present facts of the node. */
    public NodeFacts facts() {
        return new NodeFacts(
                line("proc/sys/kernel/hostname").orElse("unknown"),
                System.getProperty("os.arch"),
                line("proc/sys/kernel/osrelease").orElse("unknown"),
                libc(),
                System.getProperty("java.version"),
                System.currentTimeMillis(),
                availableBytes(),
                stagingBytes,
                chunkBytes,
                CpuFeatures.of(lines("proc/cpuinfo")),
                RdmaPort.all(root).stream()
                        .filter(RdmaPort::isUp)
                        .map(RdmaPort::name)
                        .toList(),
                tools());
    }

    private List<NodeFacts.Tool> tools() {
        List<NodeFacts.Tool> tools = new ArrayList<>();
        for (Checkpointer checkpointer : checkpointers) {
            Availability found = checkpointer.probe();
            String detail = found.remedy().isEmpty() ? found.detail() : found.detail() + " (" + found.remedy() + ")";
            tools.add(new NodeFacts.Tool(checkpointer.name(), found.available(), detail));
        }
        return tools;
    }

    /** Returns the memory that is available to processes. Before Linux 3.14 it is calculated as later kernels do. */
    long availableBytes() {
        return availableBytes(KernelFeatures.here());
    }

    /** Returns that memory on a kernel with these features. */
    long availableBytes(KernelFeatures kernel) {
        Map<String, Long> kib = new HashMap<>();
        for (String line : lines("proc/meminfo")) {
            int colon = line.indexOf(':');
            if (colon > 0) {
                kib.put(line.substring(0, colon), number(line.substring(colon)));
            }
        }
        if (kernel.has(Feature.MEM_AVAILABLE)) {
            return kib.getOrDefault("MemAvailable", 0L) * KIB;
        }
        // The kernel reclaims pages below its low mark, a quarter above its minimum of free memory.
        long lowKib = line("proc/sys/vm/min_free_kbytes").map(NodeProbe::number).orElse(0L) * 5 / 4;
        long fileKib = kib.getOrDefault("Active(file)", 0L) + kib.getOrDefault("Inactive(file)", 0L);
        long slabKib = kib.getOrDefault("SReclaimable", 0L);
        long estimatedKib = kib.getOrDefault("MemFree", 0L)
                - lowKib
                + fileKib
                - Math.min(fileKib / 2, lowKib)
                + slabKib
                - Math.min(slabKib / 2, lowKib);
        return Math.max(0, estimatedKib) * KIB;
    }

    /** Returns the memory of this machine; see proc_meminfo(5). */
    public static long totalBytes() throws IOException {
        return ProcStat.field(Path.of("/proc/meminfo"), "MemTotal")
                        .map(NodeProbe::number)
                        .orElseThrow(() -> new IOException("/proc/meminfo has no MemTotal"))
                * KIB;
    }

    /** Returns the number in a text, or 0 if there is none, or it is out of range. */
    private static long number(String text) {
        String digits = text.replaceAll("[^0-9]", "");
        return digits.isEmpty() || digits.length() > MOST_DIGITS ? 0 : Long.parseLong(digits);
    }

    /** Returns the banner of the C library that this process has mapped, which never changes in its lifetime. */
    private String libc() {
        String known = libc;
        if (known == null) {
            known = mappedLibc();
            libc = known;
        }
        return known;
    }

    private String mappedLibc() {
        for (String mapping : lines("proc/self/maps")) {
            Matcher path = MAPPED_LIBC.matcher(mapping);
            if (path.find()) {
                return banner(Path.of(path.group(1)));
            }
        }
        return "unknown";
    }

    private static String banner(Path library) {
        try {
            Matcher banner = LIBC_BANNER.matcher(Files.readString(library, StandardCharsets.ISO_8859_1));
            return banner.find() ? banner.group().replaceAll("\\.$", "") : "unknown";
        } catch (IOException e) {
            return "unknown (" + e.getMessage() + ")";
        }
    }

    Optional<String> line(String file) {
        return lines(file).stream().findFirst();
    }

    List<String> lines(String file) {
        return lines(root.resolve(file));
    }

    /** Returns the lines of a file, or none if it does not exist. */
    static List<String> lines(Path file) {
        try {
            return Files.exists(file) ? Files.readAllLines(file, StandardCharsets.ISO_8859_1) : List.of();
        } catch (IOException e) {
            throw new UncheckedIOException("cannot read " + file, e);
        }
    }

    /** Lists a directory, or empty if it does not exist. */
    static List<Path> entries(Path directory) {
        List<Path> found = new ArrayList<>();
        if (Files.isDirectory(directory)) {
            try (DirectoryStream<Path> entries = Files.newDirectoryStream(directory)) {
                entries.forEach(found::add);
            } catch (IOException | DirectoryIteratorException e) {
                throw new UncheckedIOException("cannot read " + directory, new IOException(e));
            }
        }
        found.sort(null);
        return found;
    }
}
