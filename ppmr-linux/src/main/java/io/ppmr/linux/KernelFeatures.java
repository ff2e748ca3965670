package io.ppmr.linux;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import java.util.function.LongPredicate;

/**
 * The features newer than Linux 3.10 that this node's kernel has. Each feature is probed, since a distribution's kernel
 * has more features than its version suggests. The services probe once, at their start. A caller uses the fallback for
 * a missing feature, or refuses with {@link #describeMissing} where there is no fallback. Immutable; for any thread.
 *
 * <p>The native helpers choose by themselves: they use the fallback when a system call fails with ENOSYS.
 */
public final class KernelFeatures {
    /** A feature that Linux 3.10 does not have. */
    public enum Feature {
        /**
         * A descriptor that refers to one process, even after its PID is reused: pidfd_open(2), pidfd_send_signal(2).
         */
        PIDFD(
                "pidfd_open",
                "5.3",
                "a signal is sent to the PID, and the start time is checked before and after; a running process is"
                        + " stopped for that time"),
        /** Closing all descriptors at once: close_range(2). */
        CLOSE_RANGE("close_range", "5.9", "the helpers close one descriptor after the other"),
        /** The PID of a process in each of its PID namespaces: NSpid in proc_pid_status(5). */
        NSPID(
                "NSpid",
                "4.1",
                "ranks must be in the service's own PID namespace; CRIU, and ranks in other namespaces, are"
                        + " refused"),
        /** The memory that is available to processes: MemAvailable in proc_meminfo(5). */
        MEM_AVAILABLE("MemAvailable", "3.14", "calculated from free, file and slab pages, as later kernels do"),
        /** Resident memory by kind: RssAnon in proc_pid_status(5). */
        RSS_ANON("RssAnon", "4.5", "summed over smaps, for which the kernel walks over the process's pages"),
        /** Sums over all mappings: proc_pid_smaps(5). */
        SMAPS_ROLLUP(
                "Pss_Anon in smaps_rollup",
                "5.3",
                "summed over smaps; pages shared with other processes count in full"),
        /** Time on a processor by thread: schedstat beside proc_pid_stat(5). */
        SCHEDSTAT("schedstat", "3.10 with CONFIG_SCHEDSTATS", "context switches show whether a held thread ran"),
        /** The mapped files of a process, each as a link: map_files beside proc_pid_maps(5). */
        MAP_FILES(
                "map_files",
                "4.3, or 3.3 with CONFIG_CHECKPOINT_RESTORE",
                "paths are read from maps, and write access to shared mappings from smaps, for which the kernel"
                        + " walks over the process's pages"),
        /** Freezing all processes of a cgroup regardless of signals: cgroup.freeze of cgroups(7), version 2. */
        FREEZER(
                "cgroup.freeze",
                "5.2",
                "ranks are held by their stop signal alone, and SIGCONT from another process continues them");

        private final String label;
        private final String since;
        private final String fallback;

        Feature(String label, String since, String fallback) {
            this.label = label;
            this.since = since;
            this.fallback = fallback;
        }

        /** The feature's name in the kernel's documentation. */
        public String label() {
            return label;
        }

        /** The first Linux release with the feature. */
        public String since() {
            return since;
        }

        /** Describes the fallback and its cost. */
        public String fallback() {
            return fallback;
        }
    }

    private static final int ENOSYS = 38;
    /** System calls newer than Linux 5.0 have the same number on all architectures. */
    private static final int PIDFD_SEND_SIGNAL = 424;

    private static final int PIDFD_OPEN = 434;
    private static final int CLOSE_RANGE_NUMBER = 436;

    private final String release;
    private final Set<Feature> present;

    private KernelFeatures(String release, Set<Feature> present) {
        this.release = release;
        this.present = present;
    }

    private static final class Here {
        private static final KernelFeatures KERNEL = read(
                Path.of("/proc"), number -> LibC.CALLS.syscall(number, -1, 0, 0, 0) >= 0 || LibC.errno() != ENOSYS);
    }

    /** Returns the features of this node, which are probed at the first call. */
    public static KernelFeatures here() {
        return Here.KERNEL;
    }

    /**
     * Probes the features of a kernel.
     *
     * @param proc its {@code /proc}
     * @param answers whether the kernel implements a system call, which is called with -1 and zeros as arguments and
     *     has no effect
     */
    static KernelFeatures read(Path proc, LongPredicate answers) {
        Set<Feature> present = EnumSet.noneOf(Feature.class);
        Path self = proc.resolve("self");
        add(present, Feature.PIDFD, answers.test(PIDFD_OPEN) && answers.test(PIDFD_SEND_SIGNAL));
        // The range from descriptor 2^32 - 1 to 0 is empty, so nothing is closed.
        add(present, Feature.CLOSE_RANGE, answers.test(CLOSE_RANGE_NUMBER));
        add(present, Feature.NSPID, hasField(self.resolve("status"), "NSpid"));
        add(present, Feature.MEM_AVAILABLE, hasField(proc.resolve("meminfo"), "MemAvailable"));
        add(present, Feature.RSS_ANON, hasField(self.resolve("status"), "RssAnon"));
        Path rollup = self.resolve("smaps_rollup");
        add(present, Feature.SMAPS_ROLLUP, Files.exists(rollup) && hasField(rollup, "Pss_Anon"));
        add(present, Feature.SCHEDSTAT, Files.exists(self.resolve("schedstat")));
        add(present, Feature.MAP_FILES, Files.exists(self.resolve("map_files")));
        add(present, Feature.FREEZER, UnifiedCgroups.haveFreezer(self));
        return new KernelFeatures(System.getProperty("os.version"), present);
    }

    /** Returns a kernel of this release with exactly these features. */
    public static KernelFeatures of(String release, Set<Feature> present) {
        return new KernelFeatures(release, Set.copyOf(present));
    }

    private static void add(Set<Feature> present, Feature feature, boolean has) {
        if (has) {
            present.add(feature);
        }
    }

    private static boolean hasField(Path file, String field) {
        try {
            return ProcStat.field(file, field).isPresent();
        } catch (IOException e) {
            throw new UncheckedIOException(file + " cannot be read. Remedy: mount /proc", e);
        }
    }

    /** The release as the kernel reports it, such as {@code 3.10.0-1160.el7.x86_64}. */
    public String release() {
        return release;
    }

    /** Returns true if this kernel has the feature. */
    public boolean has(Feature feature) {
        return present.contains(feature);
    }

    /** Returns the features that this kernel lacks, in the order of {@link Feature}. */
    public List<Feature> missing() {
        return Arrays.stream(Feature.values()).filter(feature -> !has(feature)).toList();
    }

    /** Returns an error text: this kernel lacks the feature, and which release has it. */
    public String describeMissing(Feature feature) {
        return "it needs Linux " + feature.since() + " or newer, and this node's " + release + " has no "
                + feature.label();
    }
}
