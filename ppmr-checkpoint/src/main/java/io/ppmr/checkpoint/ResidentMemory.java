package io.ppmr.checkpoint;

import io.ppmr.linux.KernelFeatures;
import io.ppmr.linux.KernelFeatures.Feature;
import io.ppmr.linux.ProcStat;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.regex.Pattern;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Resident memory of processes, from {@code /proc/PID/status}, or on older kernels {@code smaps}; proc(5). */
public final class ResidentMemory {
    private static final Logger LOG = LoggerFactory.getLogger(ResidentMemory.class);
    private static final String PEAK = "VmHWM";

    private static final Pattern UNFILED = Pattern.compile("(?m)^Rss(?:Anon|Shmem):\\s*(\\d{1,18}) kB$");
    private static final long KIB = 1024;

    /** The paths in smaps of memory that processes share and no file on a disk contains. */
    private static final List<String> SHARED_MEMORY =
            List.of("/dev/zero", "/dev/shm/", "/SYSV", "/memfd:", "/anon_hugepage");

    private static final int MAPS_FIELDS = 6;

    private ResidentMemory() {}

    /**
     * Returns the size of a process's memory outside of files, which is about that of its image, or 0 if it is gone.
     */
    public static long unfiledBytes(int pid) {
        Path proc = Path.of("/proc", String.valueOf(pid));
        try {
            return KernelFeatures.here().has(Feature.RSS_ANON) ? unfiledBytesByStatus(proc) : unfiledBytesBySmaps(proc);
        } catch (IOException e) {
            LOG.debug("the memory of process {} is left out: {}", pid, e.toString());
            return 0;
        }
    }

    /** Returns the size from the status. A process that is about to end no longer has such lines. */
    private static long unfiledBytesByStatus(Path proc) throws IOException {
        return UNFILED.matcher(Files.readString(proc.resolve("status"), StandardCharsets.ISO_8859_1))
                .results()
                .mapToLong(found -> Long.parseLong(found.group(1)) * KIB)
                .sum();
    }

    /**
     * Returns the size, with its swapped part, on a kernel without sums. It adds the mappings in {@code smaps}. Memory
     * that processes share after a fork counts in full for each, and shared memory by its share.
     *
     * @param proc the process's directory in /proc
     */
    public static long unfiledBytesBySmaps(Path proc) throws IOException {
        long kib = 0;
        boolean shared = false;
        // The file is read line by line, because a process can have 65,530 mappings of 16 lines each.
        try (BufferedReader lines = Files.newBufferedReader(proc.resolve("smaps"), StandardCharsets.ISO_8859_1)) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                String[] words = line.split("\\s+", MAPS_FIELDS);
                if (!words[0].endsWith(":")) {
                    String path = words.length == MAPS_FIELDS ? words[MAPS_FIELDS - 1] : "";
                    shared = SHARED_MEMORY.stream().anyMatch(path::startsWith);
                } else if (words[0].equals("Swap:") || words[0].equals(shared ? "Pss:" : "Anonymous:")) {
                    kib += ProcStat.kib(line);
                }
            }
        }
        return kib * KIB;
    }

    /** Returns the peak resident memory of this process, VmHWM. */
    public static long peakBytes() {
        try {
            return ProcStat.field(Path.of("/proc/self/status"), PEAK)
                    .map(text -> Long.parseLong(text.replace("kB", "").strip()) * KIB)
                    .orElseThrow(() -> new IllegalStateException("no " + PEAK + " in /proc/self/status"));
        } catch (IOException e) {
            throw new UncheckedIOException("reading /proc/self/status", e);
        }
    }
}
