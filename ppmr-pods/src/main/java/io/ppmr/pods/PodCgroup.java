package io.ppmr.pods;

import java.io.IOException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Stream;

/**
 * The cgroup of a pod that moved here, by its directories. The runtime makes the cgroups of all other pods. The restart
 * runs in it, so the restored processes do, too. It is immutable and safe for any thread.
 *
 * @param directories one with cgroup v2, one for each controller with cgroup v1, none if pods have no cgroups
 */
record PodCgroup(List<Path> directories) {
    private static final Path ALL = Path.of("/sys/fs/cgroup");
    private static final Path CONTROLLERS_IN_USE = ALL.resolve("cgroup.subtree_control");
    private static final String NAME = "ppmr-pod-";
    private static final Duration EMPTY_LIMIT = Duration.ofSeconds(5);
    private static final long LOOK_NS = 10_000_000;

    /** A limit by its controller, and the names of its file in version 2 and version 1. */
    private record Limit(String controller, String file, String olderFile) {}

    private static final Limit MEMORY = new Limit("memory", "memory.max", "memory.limit_in_bytes");
    private static final Limit TASKS = new Limit("pids", "pids.max", "pids.max");

    static PodCgroup of(PodRecord pod, PodSettings settings) {
        if (settings.cgroups() != PodSettings.Cgroups.CGROUPFS) {
            return new PodCgroup(List.of());
        }
        return new PodCgroup(
                unified()
                        ? List.of(ALL.resolve(NAME + pod.id()))
                        : Stream.of(MEMORY, TASKS)
                                .map(limit -> ALL.resolve(limit.controller()))
                                .filter(Files::isDirectory)
                                .map(controller -> controller.resolve(NAME + pod.id()))
                                .toList());
    }

    private static boolean unified() {
        return Files.exists(CONTROLLERS_IN_USE);
    }

    /** Makes the cgroup with the template's limits. Throws if a limit cannot be set. */
    void make(PodTemplate template) throws IOException {
        if (directories.isEmpty()
                && (template.limits().memory().isPresent()
                        || template.limits().tasks().isPresent())) {
            throw new IOException("there are no cgroups on this node, by which the limits of [pods." + template.name()
                    + "] could be set. Remedy: mount them, or take the limits out");
        }
        for (Path directory : directories) {
            Files.createDirectories(directory);
        }
        if (template.limits().memory().isPresent()) {
            set(MEMORY, template.limits().memory().get().toString());
        }
        if (template.limits().tasks().isPresent()) {
            set(TASKS, template.limits().tasks().get().toString());
        }
    }

    private void set(Limit limit, String value) throws IOException {
        Path directory = unified()
                ? directories.get(0)
                : directories.stream()
                        .filter(one -> one.startsWith(ALL.resolve(limit.controller())))
                        .findFirst()
                        .orElseThrow(() -> new IOException("this node has no cgroups of controller "
                                + limit.controller() + ", which the template's limits need. Remedy: mount it"));
        Path file = directory.resolve(unified() ? limit.file() : limit.olderFile());
        if (!Files.exists(file)) {
            Files.writeString(CONTROLLERS_IN_USE, "+" + limit.controller(), StandardOpenOption.WRITE);
        }
        Files.writeString(file, value, StandardOpenOption.WRITE);
    }

    /** Removes the cgroup after its last process ended. Idempotent. */
    void remove() throws IOException {
        for (Path directory : directories) {
            long deadlineNs = System.nanoTime() + EMPTY_LIMIT.toNanos();
            boolean gone = false;
            while (!gone) {
                try {
                    Files.deleteIfExists(directory);
                    gone = true;
                } catch (FileSystemException busy) {
                    if (System.nanoTime() - deadlineNs > 0) {
                        throw new IOException(
                                directory + " cannot be removed: " + busy.getReason() + ": something still runs in it",
                                busy);
                    }
                    LockSupport.parkNanos(LOOK_NS);
                }
            }
        }
    }
}
