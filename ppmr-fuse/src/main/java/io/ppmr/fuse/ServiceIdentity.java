package io.ppmr.fuse;

import io.ppmr.linux.ProcStat;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;

/**
 * Identifies the process that serves a mount by process id, its start time and its PID namespace. So a reused id, or an
 * equal id in another namespace, is not mistaken for it. It is part of the mount's source in {@code
 * /proc/self/mountinfo} and therefore remains after the service's death.
 */
record ServiceIdentity(long pid, long startTicks, long pidNamespace) {
    static ServiceIdentity ofThisProcess() throws IOException {
        ProcStat self =
                ProcStat.read(Path.of("/proc/self/stat")).orElseThrow(() -> new IOException("/proc is not mounted"));
        return new ServiceIdentity(ProcessHandle.current().pid(), self.startTimeTicks(), ProcStat.pidNamespace("self"));
    }

    /** Returns the identity in a mount's source; null if there is none. */
    static ServiceIdentity parse(String source) {
        String[] parts = source.substring(source.indexOf('@') + 1).split("\\.", -1);
        if (source.indexOf('@') < 0 || parts.length != 3) {
            return null;
        }
        try {
            return new ServiceIdentity(Long.parseLong(parts[0]), Long.parseLong(parts[1]), Long.parseLong(parts[2]));
        } catch (NumberFormatException e) {
            return null;
        }
    }

    String asSource(String fsname) {
        return fsname + "@" + pid + "." + startTicks + "." + pidNamespace;
    }

    boolean isOfThisPidNamespace() throws IOException {
        return pidNamespace == ProcStat.pidNamespace("self");
    }

    /**
     * Returns true if the process still serves. A killed process that hangs in the kernel, because it held a file of
     * its own mount, is still listed in /proc, but as exiting.
     */
    boolean isServing() throws IOException {
        try {
            return ProcStat.read(Path.of("/proc", Long.toString(pid), "stat"))
                    .filter(stat -> !stat.isDead() && !stat.isExiting() && stat.startTimeTicks() == startTicks)
                    .isPresent();
        } catch (UncheckedIOException e) {
            throw e.getCause();
        }
    }
}
