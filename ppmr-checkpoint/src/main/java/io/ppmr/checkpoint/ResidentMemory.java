package io.ppmr.checkpoint;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** This process's peak resident memory: VmHWM of /proc/self/status, from proc(5). */
public final class ResidentMemory {
    private static final String FIELD = "VmHWM:";

    private ResidentMemory() {}

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
