package io.ppmr.checkpoint;

import io.ppmr.os.ProcFields;
import io.ppmr.os.ProcFiles;
import io.ppmr.os.ProcFolder;
import io.ppmr.os.ProcStat;
import io.ppmr.os.Scheduling;
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
 * The part of what the threads of a process may do that is the same for all of them, read once. Immutable.
 *
 * @param limits its limits by the names that prlimit(1) has for them, soft and hard; unsigned
 * @param shared the kinds of namespaces, of those that no thread has for itself, that it shares with the node
 * @param node the namespaces that the node's own processes live in, by their kinds
 * @param lastCapability the last capability that the kernel knows
 */
record ProcessRights(Map<String, long[]> limits, Set<String> shared, Map<String, String> node, int lastCapability) {
    /** A thread can leave these by itself, unshare(2). */
    static final List<String> OF_THREAD = List.of("cgroup", "ipc", "mnt", "net", "uts");

    /** All threads of a process are in the same: the kernel refuses the others, unshare(2), setns(2), clone(2). */
    private static final List<String> OF_PROCESS = List.of("pid", "time", "user");

    /** The fields of a thread's status that its rights are made of; proc_pid_status(5). */
    static final List<String> FIELDS = Stream.concat(
                    Stream.of("Uid", "Gid", "Groups", "Seccomp", "Seccomp_filters", "NoNewPrivs"),
                    ThreadRights.CAPABILITY_SETS.stream())
            .toList();

    private static final int LONGEST_FILE = 1 << 20;
    private static final int HEX = 16;

    /** Gives for each limit, by its name in {@code /proc/PID/limits}, the name that prlimit(1) has for it. */
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
     * Reads it.
     *
     * @param proc the folder in {@code /proc} of a thread of it that lives
     * @param node as {@link #namespacesOfNode} gives it
     */
    static ProcessRights read(Path proc, Map<String, String> node) throws IOException {
        try (ProcFolder folder = ProcFolder.open(proc + "/ns")) {
            return new ProcessRights(limits(proc), shared(OF_PROCESS, folder, node), node, ProcStat.lastCapability());
        }
    }

    /** Returns the namespaces that the node's own processes live in: those of its init, or of this service. */
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

    /** Empty on a kernel without this kind, or one that does not say: nothing is taken for the node's own then. */
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

    /** Counted without a sign: no limit is more than any. */
    private static long limit(String word) {
        return word.equals("unlimited") ? ThreadRights.UNLIMITED : Long.parseUnsignedLong(word);
    }

    /** Reads what one of its threads may do. */
    ThreadRights thread(LivingThread thread, Scheduling scheduling) throws IOException {
        return thread(thread, scheduling, namespacesOf(thread));
    }

    /**
     * Returns the texts of a thread's links in the order of {@link #OF_THREAD}; empty ones where the kernel has no such
     * namespaces.
     */
    static List<String> namespacesOf(LivingThread thread) throws IOException {
        try (ProcFolder folder = thread.folder("ns")) {
            return OF_THREAD.stream()
                    .map(kind -> namespace(folder, kind).orElse(""))
                    .toList();
        }
    }

    /**
     * The same of a thread whose namespaces are known.
     *
     * @param namespaces as {@link #namespacesOf} returns them
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

    /** Returns a thread's number as it sees it itself, by its status. */
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
