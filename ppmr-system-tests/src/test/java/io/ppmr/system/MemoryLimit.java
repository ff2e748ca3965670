package io.ppmr.system;

import io.ppmr.testbed.Conditions;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;
import java.util.concurrent.ThreadLocalRandom;

/**
 * A memory cgroup of this test's own, of version 1 or 2 (memory controller). Its processes and their children get no
 * more memory than the limit. The kernel kills one of them when they allocate more. Its owner closes it, when
 * everything in it ended.
 */
final class MemoryLimit implements AutoCloseable {
    private final Path group;
    private final Path killCounts;

    private MemoryLimit(Path group, Path limit, Path killCounts, long bytes) throws IOException {
        this.group = group;
        this.killCounts = killCounts;
        Files.writeString(limit, Long.toString(bytes));
    }

    /** Makes one. Empty where this machine permits none. */
    static Optional<MemoryLimit> of(long bytes) throws IOException {
        String name = "ppmr-test-" + ThreadLocalRandom.current().nextInt(1 << 30);
        Path first = Path.of("/sys/fs/cgroup/memory");
        Path second = Path.of("/sys/fs/cgroup");
        Path version2 = second.resolve("cgroup.subtree_control");
        if (Files.isWritable(first.resolve("cgroup.procs"))) {
            Path group = Files.createDirectory(first.resolve(name));
            return Optional.of(new MemoryLimit(
                    group, group.resolve("memory.limit_in_bytes"), group.resolve("memory.oom_control"), bytes));
        }
        if (Files.isWritable(version2) && Files.readString(version2).contains("memory")) {
            Path group = Files.createDirectory(second.resolve(name));
            return Optional.of(
                    new MemoryLimit(group, group.resolve("memory.max"), group.resolve("memory.events"), bytes));
        }
        return Optional.empty();
    }

    /** Adds a process. Its allocated memory stays charged to the old cgroup. */
    void add(long pid) throws IOException {
        Files.writeString(group.resolve("cgroup.procs"), Long.toString(pid));
    }

    /** Returns the number of processes that the kernel killed for lack of memory. */
    long kills() throws IOException {
        return Files.readAllLines(killCounts).stream()
                .filter(line -> line.startsWith("oom_kill "))
                .mapToLong(line -> Long.parseLong(line.substring("oom_kill ".length())))
                .findFirst()
                .orElseThrow();
    }

    /** Returns true if no process is left in it. */
    boolean isEmpty() throws IOException {
        return Files.readString(group.resolve("cgroup.procs")).isEmpty();
    }

    @Override
    public String toString() {
        return group.toString();
    }

    @Override
    public void close() throws Exception {
        Conditions.until(group + " is empty", this::isEmpty);
        Files.delete(group);
    }
}
