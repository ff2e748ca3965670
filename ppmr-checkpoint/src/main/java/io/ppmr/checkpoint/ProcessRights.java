package io.ppmr.checkpoint;

import io.ppmr.linux.ProcFields;
import io.ppmr.linux.ProcFiles;
import io.ppmr.linux.ProcFolder;
import io.ppmr.linux.ProcStat;
import io.ppmr.linux.Scheduling;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * The rights that are equal for all threads of a process, read once. Immutable.
 *
 * @param limits its limits by prlimit(1)'s names, soft and hard; unsigned
 * @param shared kinds of process-wide namespaces that it shares with the node
 * @param node namespaces of the node's own processes, by their kinds
 * @param lastCapability the kernel's last capability
 */
record ProcessRights(Map<String, long[]> limits, Set<String> shared, Map<String, String> node, int lastCapability) {
    /** Namespaces that a single thread can leave, unshare(2). */
    static final List<String> OF_THREAD = List.of("cgroup", "ipc", "mnt", "net", "uts");

    /** Namespaces that all threads of a process share. The kernel refuses others, unshare(2), setns(2), clone(2). */
    private static final List<String> OF_PROCESS = List.of("pid", "time", "user");

    /** The fields of a thread's status that its rights are made of; proc_pid_status(5). */
    static final List<String> FIELDS = Stream.concat(
                    Stream.of("Uid", "Gid", "Groups", "Seccomp", "Seccomp_filters", "NoNewPrivs"),
                    ThreadRights.CAPABILITY_SETS.stream())
            .toList();

    private static final int LONGEST_FILE = 1 << 20;
    private static final int HEX = 16;

    /** Maps each limit's name in {@code /proc/PID/limits} to its name in prlimit(1). */
    static final Map<String, String> LIMITS = limitNames();

    private static Map<String, String> limitNames() {
        Map<String, String> names = new TreeMap<>();
        names.put("Max cpu time", "cpu");
        names.put("Max file size", "fsize");
        names.put("Max data size", "data");
        names.put("Max stack size", "stack");
        names.put("Max core file size", "core");
        names.put("Max resident set", "rss");
        names.put("Max processes", "nproc");
        names.put("Max open files", "nofile");
        names.put("Max locked memory", "memlock");
        names.put("Max address space", "as");
        names.put("Max file locks", "locks");
        names.put("Max pending signals", "sigpending");
        names.put("Max msgqueue size", "msgqueue");
        names.put("Max nice priority", "nice");
        names.put("Max realtime priority", "rtprio");
        names.put("Max realtime timeout", "rttime");
        return names;
    }

    /**
     * Reads the rights.
     *
     * @param proc the folder in {@code /proc} of one of its living threads
     * @param node from {@link #namespacesOfNode}
     */
    static ProcessRights read(Path proc, Map<String, String> node) throws IOException {
        try (ProcFolder folder = ProcFolder.open(proc + "/ns")) {
            return new ProcessRights(limits(proc), shared(OF_PROCESS, folder, node), node, ProcStat.lastCapability());
        }
    }

    /** Returns the namespaces of the node's own processes: those of its init, or of this service. */
    static Map<String, String> namespacesOfNode() throws IOException {
        Path init = Path.of("/proc/1/ns");
        Map<String, String> all = new TreeMap<>();
        try (ProcFolder folder = ProcFolder.open(
                (Files.isReadable(init.resolve("user")) ? init : Path.of("/proc/self/ns")).toString())) {
            for (List<String> kinds : List.of(OF_PROCESS, OF_THREAD)) {
                for (String kind : kinds) {
                    namespace(folder, kind).ifPresent(name -> all.put(kind, name));
                }
            }
        }
        return all;
    }

    /**
     * Returns a namespace, or empty if the kernel does not have or show this kind. Then none counts as the node's own.
     */
    private static Optional<String> namespace(ProcFolder folder, String kind) {
        try {
            return folder.link(kind);
        } catch (IOException e) {
            return Optional.empty();
        }
    }

    private static Set<String> shared(List<String> kinds, ProcFolder folder, Map<String, String> node) {
        Set<String> shared = new TreeSet<>();
        for (String kind : kinds) {
            Optional<String> own = namespace(folder, kind);
            if (own.isPresent() && own.get().equals(node.get(kind))) {
                shared.add(kind);
            }
        }
        return shared;
    }

    /** Reads the limits of a process, by its folder in {@code /proc}. */
    static Map<String, long[]> limits(Path proc) throws IOException {
        String text = ProcFiles.text(proc + "/limits", LONGEST_FILE)
                .orElseThrow(() -> new NoSuchFileException(proc + "/limits"));
        Map<String, long[]> limits = new TreeMap<>();
        for (String line : text.lines().toList()) {
            for (Map.Entry<String, String> name : LIMITS.entrySet()) {
                if (line.startsWith(name.getKey() + " ")) {
                    String[] words =
                            line.substring(name.getKey().length()).trim().split("\\s+", -1);
                    limits.put(name.getValue(), new long[] {limit(words[0]), limit(words[1])});
                }
            }
        }
        return limits;
    }

    /** Returns a limit as an unsigned number. "Unlimited" is the largest one. */
    private static long limit(String word) {
        return word.equals("unlimited") ? ThreadRights.UNLIMITED : Long.parseUnsignedLong(word);
    }

    /** Reads the rights of one of its threads. */
    ThreadRights thread(LivingThread thread, Scheduling scheduling) throws IOException {
        return thread(thread, scheduling, namespacesOf(thread));
    }

    /**
     * Returns the texts of a thread's links in the order of {@link #OF_THREAD}. They are empty if the kernel has no
     * such namespaces.
     */
    static List<String> namespacesOf(LivingThread thread) throws IOException {
        try (ProcFolder folder = thread.folder("ns")) {
            return OF_THREAD.stream()
                    .map(kind -> namespace(folder, kind).orElse(""))
                    .toList();
        }
    }

    /**
     * Reads the rights of a thread whose namespaces are known.
     *
     * @param namespaces from {@link #namespacesOf}
     */
    ThreadRights thread(LivingThread thread, Scheduling scheduling, List<String> namespaces) {
        ProcFields status = thread.status();
        Set<String> all = new TreeSet<>(shared);
        for (int kind = 0; kind < OF_THREAD.size(); kind++) {
            String own = namespaces.get(kind);
            if (!own.isEmpty() && own.equals(node.get(OF_THREAD.get(kind)))) {
                all.add(OF_THREAD.get(kind));
            }
        }
        return new ThreadRights(
                ownNumber(thread),
                numbers(status.value("Uid").orElse("")),
                numbers(status.value("Gid").orElse("")),
                numbers(status.value("Groups").orElse("")),
                ThreadRights.CAPABILITY_SETS.stream()
                        .map(set -> Long.parseUnsignedLong(status.value(set).orElse("0"), HEX))
                        .toList(),
                lastCapability,
                new ThreadRights.SeccompState(
                        Integer.parseInt(status.value("Seccomp").orElse("0")),
                        Integer.parseInt(status.value("Seccomp_filters").orElse("0"))),
                status.value("NoNewPrivs").orElse("0").equals("1"),
                all,
                scheduling,
                limits);
    }

    /** Returns a thread's number in its own namespace, from its status. */
    static int ownNumber(LivingThread thread) {
        String pids = thread.status().value("NSpid").orElse(thread.name());
        return Integer.parseInt(pids.substring(pids.lastIndexOf('\t') + 1).trim());
    }

    private static Set<Integer> numbers(String words) {
        return words.isBlank()
                ? Set.of()
                : Arrays.stream(words.trim().split("\\s+", -1))
                        .map(Integer::parseUnsignedInt)
                        .collect(Collectors.toCollection(TreeSet::new));
    }
}
