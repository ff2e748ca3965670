package io.ppmr.checkpoint;

import io.ppmr.os.KernelFeatures;
import io.ppmr.os.KernelFeatures.Feature;
import io.ppmr.os.ProcStat;
import io.ppmr.os.ProcessIdentity;
import io.ppmr.os.UnifiedCgroups;
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
 * The cgroups (version 2) whose freezer holds stopped processes besides. A process that is stopped by a signal runs
 * again when its user sends SIGCONT; one in a frozen cgroup does not. Only cgroups are frozen in which nothing but held
 * processes lives, so most jobs have none: one that a job manager has put into a cgroup for each rank, or for the
 * node's part of the job, has. See cgroups(7) and the kernel's page on cgroup v2, "cgroup.freeze".
 *
 * <p>Freezing neither stops nor continues a process: one that was stopped before stays so until SIGCONT. Killing works.
 * Immutable; for any thread.
 */
public final class FrozenCgroups {
    /** None: nothing is frozen, and nothing must be thawed. */
    public static final FrozenCgroups NONE = new FrozenCgroups(List.of());

    private static final Logger LOG = LoggerFactory.getLogger(FrozenCgroups.class);
    private static final Path SELF = Path.of("/proc/self");
    private static final String FREEZE = UnifiedCgroups.FREEZE;

    /** Stopped processes need not be waited for; one that was continued meanwhile comes to the freezer soon. */
    private static final Duration LIMIT = Duration.ofSeconds(1);

    private final List<Path> directories;

    private FrozenCgroups(List<Path> directories) {
        this.directories = List.copyOf(directories);
    }

    /**
     * Finds the cgroups in which only these processes live. A cgroup that another program has frozen is left alone.
     *
     * @param held processes that are stopped
     */
    public static FrozenCgroups around(Collection<ProcessIdentity> held) {
        return around(held, KernelFeatures.here());
    }

    /** The same, on a kernel that has these features. */
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

    /** Those that the service before has frozen, by what its journal says. */
    public static FrozenCgroups recorded(List<String> paths) {
        return new FrozenCgroups(paths.stream().map(Path::of).toList());
    }

    /** Returns the directories of the cgroups, for the journal. */
    public List<String> paths() {
        return directories.stream().map(Path::toString).toList();
    }

    /** Freezes them. One that cannot be frozen stays as it was: the processes in it are stopped all the same. */
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

    /** Thaws them: what was stopped before stays so until SIGCONT. One that is gone needs nothing. */
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

    /** The file is the kernel's; it is never made. */
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
            LOG.warn("the cgroups of version 2 are not found, so SIGCONT would continue held ranks: {}", e.toString());
            return Optional.empty();
        }
    }

    private static Optional<Path> directory(Path mount, ProcessIdentity process) {
        try {
            return UnifiedCgroups.directory(mount, Path.of("/proc", Integer.toString(process.pid())));
        } catch (IOException e) {
            LOG.debug("the cgroup of PID {} is not known: {}", process.pid(), e.toString());
            return Optional.empty();
        }
    }

    /** Returns true if only these processes live in the cgroup and in those below it, and it is not frozen. */
    private static boolean isAlone(Path cgroup, Set<Integer> pids) {
        try (Stream<Path> below = Files.walk(cgroup)) {
            if (!Files.readString(cgroup.resolve(FREEZE)).strip().equals("0")) {
                return false;
            }
            List<Path> all = new ArrayList<>(below.filter(Files::isDirectory).toList());
            for (Path one : all) {
                for (String pid : Files.readAllLines(one.resolve("cgroup.procs"))) {
                    // 0 stands for a process that this service cannot see. One that has ended may still be listed.
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
