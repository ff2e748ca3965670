package io.ppmr.checkpoint;

import io.ppmr.linux.KernelFeatures;
import io.ppmr.linux.KernelFeatures.Feature;
import io.ppmr.linux.ProcStat;
import io.ppmr.linux.ProcessIdentity;
import io.ppmr.linux.UnifiedCgroups;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Stream;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The cgroups (version 2) whose freezer holds stopped processes, too. A process that is stopped by a signal runs again
 * when its user sends SIGCONT, but not in a frozen cgroup. Only cgroups without other processes are frozen, so most
 * jobs have none. If a job manager uses a cgroup for each rank, or for the node's part of the job, that is frozen. See
 * cgroups(7) and the kernel's page on cgroup v2, "cgroup.freeze".
 *
 * <p>Freezing neither stops nor continues a process. One that was stopped before stays stopped until SIGCONT. Killing
 * works. Immutable; for any thread.
 */
public final class FrozenCgroups {
    /** No cgroups. Nothing is frozen, and nothing must be thawed. */
    public static final FrozenCgroups NONE = new FrozenCgroups(List.of());

    private static final Logger LOG = LoggerFactory.getLogger(FrozenCgroups.class);
    private static final Path SELF = Path.of("/proc/self");
    private static final String FREEZE = UnifiedCgroups.FREEZE;

    /**
     * Time limit of a freeze. Stopped processes need no wait, and one that was continued in the meantime freezes soon.
     */
    private static final Duration LIMIT = Duration.ofSeconds(1);

    private final List<Path> directories;

    private FrozenCgroups(List<Path> directories) {
        this.directories = List.copyOf(directories);
    }

    /**
     * Finds the cgroups in which only these processes live. A cgroup that another program has frozen is left unchanged.
     *
     * @param held processes that are stopped
     */
    public static FrozenCgroups around(Collection<ProcessIdentity> held) {
        return around(held, KernelFeatures.here());
    }

    /** Finds these cgroups on a kernel with these features. */
    static FrozenCgroups around(Collection<ProcessIdentity> held, KernelFeatures kernel) {
        Optional<Path> mount = kernel.has(Feature.FREEZER) ? mountPoint() : Optional.empty();
        if (mount.isEmpty()) {
            return NONE;
        }
        Set<Integer> pids = new HashSet<>();
        Set<Path> candidates = new LinkedHashSet<>();
        for (ProcessIdentity process : held) {
            pids.add(process.pid());
            directory(mount.get(), process).ifPresent(candidates::add);
        }
        return new FrozenCgroups(
                candidates.stream().filter(one -> isAlone(one, pids)).toList());
    }

    /** Returns the cgroups that the previous service run has frozen, as its journal records. */
    public static FrozenCgroups recorded(List<String> paths) {
        return new FrozenCgroups(paths.stream().map(Path::of).toList());
    }

    /** Returns the directories of the cgroups, for the journal. */
    public List<String> paths() {
        return directories.stream().map(Path::toString).toList();
    }

    /** Freezes the cgroups. If one cannot be frozen, it stays as it was, and its processes are stopped all the same. */
    public void freeze() {
        for (Path directory : directories) {
            try {
                write(directory, "1");
                if (!Polling.until(LIMIT, () -> isFrozen(directory))) {
                    write(directory, "0");
                    LOG.warn(
                            "cgroup {} has not frozen within {}: SIGCONT would continue its processes",
                            directory,
                            LIMIT);
                }
            } catch (IOException e) {
                LOG.warn("cgroup {} cannot be frozen, so SIGCONT would continue its processes: {}", directory, e);
            }
        }
    }

    /**
     * Thaws the cgroups. Processes that were stopped before stay stopped until SIGCONT. A cgroup that is gone needs
     * nothing.
     */
    public void thaw() {
        for (Path directory : directories) {
            try {
                if (Files.exists(directory)) {
                    write(directory, "0");
                }
            } catch (IOException e) {
                LOG.error("cgroup {} cannot be thawed: {}. Remedy: write 0 to its file {}", directory, e, FREEZE);
            }
        }
    }

    /** Writes to the file, which is the kernel's and never made. */
    private static void write(Path directory, String text) throws IOException {
        Files.writeString(directory.resolve(FREEZE), text, StandardCharsets.US_ASCII, StandardOpenOption.WRITE);
    }

    private static boolean isFrozen(Path directory) throws IOException {
        return Files.readAllLines(directory.resolve("cgroup.events")).contains("frozen 1");
    }

    private static Optional<Path> mountPoint() {
        try {
            return UnifiedCgroups.mountPoint(SELF);
        } catch (IOException e) {
            LOG.warn("cgroups of version 2 not found, so SIGCONT would continue held ranks: {}", e.toString());
            return Optional.empty();
        }
    }

    private static Optional<Path> directory(Path mount, ProcessIdentity process) {
        try {
            return UnifiedCgroups.directory(mount, Path.of("/proc", Integer.toString(process.pid())));
        } catch (IOException e) {
            LOG.debug("the cgroup of PID {} is unknown: {}", process.pid(), e.toString());
            return Optional.empty();
        }
    }

    /** Returns true if only these processes live in the cgroup and its descendants, and it is not frozen. */
    private static boolean isAlone(Path cgroup, Set<Integer> pids) {
        try (Stream<Path> below = Files.walk(cgroup)) {
            if (!Files.readString(cgroup.resolve(FREEZE)).strip().equals("0")) {
                return false;
            }
            List<Path> all = new ArrayList<>(below.filter(Files::isDirectory).toList());
            for (Path one : all) {
                for (String pid : Files.readAllLines(one.resolve("cgroup.procs"))) {
                    // 0 means a process that this service cannot see. A process that ended may still be
                    // listed.
                    int number = Integer.parseInt(pid);
                    boolean ended = number != 0
                            && ProcStat.read("/proc/" + number + "/stat")
                                    .map(ProcStat::isDead)
                                    .orElse(true);
                    if (!pids.contains(number) && !ended) {
                        return false;
                    }
                }
            }
            return true;
        } catch (IOException | RuntimeException e) {
            LOG.debug("cgroup {} is not frozen: {}", cgroup, e.toString());
            return false;
        }
    }
}
