package io.ppmr.transport.rdma;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/** Detects whether a registration failed because of the limit of locked memory (RLIMIT_MEMLOCK, getrlimit(2)). */
final class MemoryLock {
    private static final int PAGE_BYTES = 4096;
    private static final int KIB = 1024;

    private MemoryLock() {}

    /** Returns an error text for a failed registration, with the remedy. */
    static String explain(String what, long lengthBytes, String cause) {
        try {
            return explain(
                    what,
                    lengthBytes,
                    cause,
                    Files.readAllLines(Path.of("/proc/self/limits"), StandardCharsets.UTF_8),
                    Files.readAllLines(Path.of("/proc/self/status"), StandardCharsets.UTF_8));
        } catch (IOException e) {
            return plain(what, lengthBytes, cause) + " (its limits cannot be read: " + e.getMessage() + ")";
        }
    }

    /** Returns the error text for given contents of proc(5)'s limits and status. */
    static String explain(String what, long lengthBytes, String cause, List<String> limits, List<String> status) {
        long limitBytes = Long.MAX_VALUE;
        for (String line : limits) {
            if (line.startsWith("Max locked memory")) {
                String soft =
                        line.substring("Max locked memory".length()).trim().split("\\s+", 2)[0];
                limitBytes = soft.equals("unlimited") ? Long.MAX_VALUE : Long.parseLong(soft);
            }
        }
        long lockedBytes = 0;
        for (String line : status) {
            if (line.startsWith("VmLck:") || line.startsWith("VmPin:")) {
                lockedBytes += Long.parseLong(line.replaceAll("[^0-9]", "")) * KIB;
            }
        }
        // The queues that the kernel shares with the process count as well.
        long neededBytes = lockedBytes + (lengthBytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
        if (neededBytes <= limitBytes) {
            return plain(what, lengthBytes, cause);
        }
        return plain(what, lengthBytes, cause) + ": this process may lock " + limitBytes + " bytes of memory and needs "
                + neededBytes + " (RLIMIT_MEMLOCK: set LimitMEMLOCK=infinity in its unit, or ulimit -l unlimited)";
    }

    private static String plain(String what, long lengthBytes, String cause) {
        return what + " (" + lengthBytes + " bytes) cannot be registered for RDMA: " + cause;
    }
}
