package io.ppmr.checkpoint;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.regex.Pattern;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Resident memory of processes, from /proc/PID/status of proc(5). */
public final class ResidentMemory {
    private static final Logger LOG = LoggerFactory.getLogger(ResidentMemory.class);
    private static final String FIELD = "VmHWM:";

    private static final Pattern UNFILED = Pattern.compile("(?m)^Rss(?:Anon|Shmem):\\s*(\\d+) kB$");

    private ResidentMemory() {}

    /** What of a process's memory no file holds, which is about the size of its image; 0 where it has gone. */
    public static long unfiledBytes(int pid) {
        try {
            return UNFILED.matcher(Files.readString(Path.of("/proc", String.valueOf(pid), "status")))
                    .results()
                    .mapToLong(found -> Long.parseLong(found.group(1)) * 1024)
                    .sum();
        } catch (IOException e) {
            LOG.debug("process {} has no memory to look at: {}", pid, e.toString());
            return 0;
        }
    }

    /** The peak of this process, VmHWM. */
    public static long peakBytes() {
        try {
            for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
                if (line.startsWith(FIELD)) {
                    return Long.parseLong(line.substring(FIELD.length())
                                    .replace("kB", "")
                                    .strip())
                            * 1024;
                }
            }
        } catch (IOException e) {
            throw new UncheckedIOException("reading /proc/self/status", e);
        }
        throw new IllegalStateException("no " + FIELD + " in /proc/self/status");
    }
}
