package io.ppmr.os;

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
 * Knows what of that which came after Linux 3.10 this node's kernel has. It asks the kernel for each thing, since a
 * distribution's kernel has more than its number says. The services ask once, at their start; who has an older way
 * looks here which one to go, and who has none refuses by {@link #lacks}. Immutable; for any thread.
 *
 * <p>The native helpers choose by themselves: what answers ENOSYS they do the older way.
 */
public final class KernelFeatures {
    /** Something that Linux 3.10 does not have. */
    public enum Feature {
        /** A descriptor that means one process, whatever becomes of its PID: pidfd_open(2), pidfd_send_signal(2). */
        PIDFD(
                "pidfd_open",
                "5.3",
                "a signal goes to a PID whose start time is right before and after it, and a process that runs is"
                        + " stopped for that moment"),
        /** Closing all descriptors at once: close_range(2). */
        CLOSE_RANGE("close_range", "5.9", "the helpers close one descriptor after the other"),
        /** The PID of a process in each of its PID namespaces: NSpid in proc_pid_status(5). */
        NSPID(
                "NSpid",
                "4.1",
                "ranks live in the service's own PID namespace; CRIU, and ranks in namespaces of their own, are"
                        + " refused"),
        /** The memory that processes can still have: MemAvailable in proc_meminfo(5). */
        MEM_AVAILABLE("MemAvailable", "3.14", "calculated from free, file and slab pages, as later kernels do"),
        /** Resident memory by kind: RssAnon in proc_pid_status(5). */
        RSS_ANON("RssAnon", "4.5", "added up over smaps, which costs the kernel a walk over the process's pages"),
        /** Sums over all mappings: proc_pid_smaps(5). */
        SMAPS_ROLLUP(
                "Pss_Anon in smaps_rollup",
                "5.3",
                "added up over smaps; pages shared with other processes count in full"),
        /** Time on a processor by thread: schedstat beside proc_pid_stat(5). */
        SCHEDSTAT("schedstat", "3.10 with CONFIG_SCHEDSTATS", "whether a held thread has run is told by its switches"),
        /** The files that a process has mapped, each as a link: map_files beside proc_pid_maps(5). */
        MAP_FILES(
                "map_files",
                "4.3, or 3.3 with CONFIG_CHECKPOINT_RESTORE",
                "paths are those in maps, and whether a shared mapping may be written is read in smaps, which costs the"
                        + " kernel a walk over the process's pages"),
        /** Holding all processes of a cgroup, whatever signal they get: cgroup.freeze of cgroups(7), version 2. */
        FREEZER(
                "cgroup.freeze",
                "5.2",
                "ranks are held by their stop signal alone, and who sends SIGCONT continues them");

        private final String label;
        private final String since;
        private final String olderWay;

        Feature(String label, String since, String olderWay) {
            this.label = label;
            this.since = since;
            this.olderWay = olderWay;
        }

        /** Its name where the kernel's documentation has it. */
        public String label() {
            return label;
        }

        /** The first release that has it. */
        public String since() {
            return since;
        }

        /** Returns how the same is done without the feature, and what that costs. */
        public String olderWay() {
            return olderWay;
        }
    }

    private static final int ENOSYS = 38;
    /** The numbers of system calls that came after Linux 5.0 are the same on all machines. */
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

    /** Those of this node, asked for when this is called for the first time. */
    public static KernelFeatures here() {
        return Here.KERNEL;
    }

    /**
     * Those of a kernel by what it shows.
     *
     * @param proc its {@code /proc}
     * @param answers whether it knows a system call, which is made with -1 and zeros as its arguments and does nothing
     */
    static KernelFeatures read(Path proc, LongPredicate answers) {
        Set<Feature> present = EnumSet.noneOf(Feature.class);
        Path self = proc.resolve("self");
        add(present, Feature.PIDFD, answers.test(PIDFD_OPEN) && answers.test(PIDFD_SEND_SIGNAL));
        // From descriptor 2^32 - 1 up to 0: nothing is closed.
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

    /** A kernel of this release that has these and no other ones. */
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

    /** The kernel's own name for itself, such as {@code 3.10.0-1160.el7.x86_64}. */
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

    /** Says for messages that this kernel lacks something, and which one has it. */
    public String lacks(Feature feature) {
        return "it needs Linux " + feature.since() + " or newer, and this node's " + release + " has no "
                + feature.label();
    }
}
