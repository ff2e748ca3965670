package io.ppmr.checkpoint;

import io.ppmr.os.KernelFeatures;
import io.ppmr.os.KernelFeatures.Feature;
import io.ppmr.os.ProcStat;
import io.ppmr.os.ProcessIdentity;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;

/**
 * Describes what the processes of a rank may do and what they have open, read from {@code /proc} while they are
 * stopped. The source reads it of the originals and sends it before the image is whole; the target reads it of the
 * copies and compares the two before it votes ({@link RightsCheck}), so neither journal holds it: an attempt that a
 * restart of a service interrupts before the vote is rolled back, and after the vote it has been compared. Immutable;
 * for any thread.
 *
 * <p>The kernel shows the securebits of another process nowhere, so they are not in it; docs/security.md says what
 * bounds them all the same.
 *
 * @param threads what each thread may do
 * @param files what is open or mapped, and the programs and working directories; each named thing once
 * @param roots the root directories
 * @param others descriptors without a path, by kind: {@code anon_inode:[eventfd]}, {@code net}
 */
public record RankRights(List<ThreadRights> threads, Set<OpenFile> files, Set<String> roots, Set<String> others) {
    private static final Path PROC = Path.of("/proc");
    private static final int OCTAL = 8;
    private static final int HEX = 16;
    private static final int ACCESS_MODE = 3;
    private static final int READ_WRITE = 2;
    private static final int O_PATH = 010000000;
    private static final int OWNER_READS = 0400;
    private static final int OWNER_WRITES = 0200;
    private static final int MAPS_FIELDS = 6;
    private static final int MAPS_PATH = 5;
    private static final int MAPS_DEVICE = 3;
    /** The place of the letter in the permissions that says whether a mapping is shared. */
    private static final int SHARED_LETTER = 3;

    private static final String SHARED_MEMORY = "/dev/zero (deleted)";

    /** Memory that belongs to no file and that no path leads to. */
    static final Set<String> ANONYMOUS_MEMORY = Set.of(SHARED_MEMORY, "/anon_hugepage (deleted)");

    /** The path that shared memory has after CRIU has restored it. */
    static final String UNNAMED_MEMORY = "/memfd: (deleted)";

    /** Gives for each limit, by its name in {@code /proc/PID/limits}, the name that prlimit(1) has for it. */
    static final Map<String, String> LIMITS = limitNames();

    private static final List<String> NAMESPACES = List.of("cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts");

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

    public RankRights {
        threads = List.copyOf(threads);
        files = Set.copyOf(files);
        roots = Set.copyOf(roots);
        others = Set.copyOf(others);
    }

    /**
     * A file by its path.
     *
     * @param path as the kernel shows it; a file without a name left ends with {@code (deleted)}
     * @param ownerUid whose it is, -1 where that cannot be said
     * @param reads whether it is open for reading
     * @param writes whether it is open for writing
     */
    public record OpenFile(String path, int ownerUid, boolean reads, boolean writes) {
        /** Returns true if this is the same file, open for at least as much as the other one. */
        boolean covers(OpenFile other) {
            return path.equals(other.path)
                    && ownerUid == other.ownerUid
                    && (reads || !other.reads)
                    && (writes || !other.writes);
        }

        @Override
        public String toString() {
            String mode = writes ? reads ? "reading and writing" : "writing" : reads ? "reading" : "looking up";
            return path + " (of user " + ownerUid + ") open for " + mode;
        }
    }

    /** Reads it of processes that are stopped; one that has gone is an error by name. */
    public static RankRights read(Collection<ProcessIdentity> processes) throws CheckpointException {
        List<ThreadRights> threads = new ArrayList<>();
        Set<OpenFile> files = new LinkedHashSet<>();
        Set<String> roots = new TreeSet<>();
        Set<String> others = new TreeSet<>();
        Map<String, String> node = namespacesOfNode();
        for (ProcessIdentity process : processes) {
            try {
                List<Path> tasks = tasks(process);
                if (tasks.isEmpty()) {
                    throw new IOException("it has ended");
                }
                // A first thread that has ended shows nothing of what the others still share.
                Path proc = PROC.resolve(tasks.get(0).getFileName());
                Map<String, long[]> limits = limits(proc);
                for (Path task : tasks) {
                    threads.add(thread(task, limits, node));
                    descriptors(task, files, others);
                    files.add(named(task.resolve("cwd"), false, false));
                    roots.add(Files.readSymbolicLink(task.resolve("root")).toString());
                }
                mappings(proc, files);
                files.add(named(proc.resolve("exe"), true, false));
            } catch (IOException | DirectoryIteratorException | IllegalArgumentException e) {
                throw new CheckpointException(
                        "what PID " + process.pid() + " may do and has open cannot be read from /proc: " + e
                                + ". Remedy: run the service as root; where the process is gone, look at why it ended",
                        e);
            }
        }
        return new RankRights(threads, files, roots, others);
    }

    // ---- reading /proc -----------------------------------------------------------------------------------------

    /** The threads that live. */
    private static List<Path> tasks(ProcessIdentity process) throws IOException {
        List<Path> living = new ArrayList<>();
        for (Path task : list(PROC.resolve(Integer.toString(process.pid())).resolve("task"))) {
            Optional<ProcStat> stat = ProcStat.read(task.resolve("stat"));
            if (stat.isPresent() && !stat.get().isDead()) {
                living.add(task);
            }
        }
        return living;
    }

    /** The numbers of a process's threads as this service sees them. */
    static List<String> threadIds(ProcessIdentity process) throws CheckpointException {
        try {
            return tasks(process).stream()
                    .map(task -> task.getFileName().toString())
                    .toList();
        } catch (IOException | DirectoryIteratorException e) {
            throw new CheckpointException("the threads of PID " + process.pid() + " cannot be listed: " + e, e);
        }
    }

    /** Returns true if a process shares memory that belongs to no file. */
    boolean hasSharedMemory() {
        return files.stream()
                .anyMatch(
                        file -> file.path().equals(SHARED_MEMORY) || file.path().equals(UNNAMED_MEMORY));
    }

    private static List<Path> list(Path directory) throws IOException {
        List<Path> entries = new ArrayList<>();
        try (DirectoryStream<Path> found = Files.newDirectoryStream(directory)) {
            found.forEach(entries::add);
        }
        return entries;
    }

    private static List<String> lines(Path file) throws IOException {
        return Files.readAllLines(file, StandardCharsets.ISO_8859_1);
    }

    /** The namespaces that the node's own processes live in, by those of its init, or of this service. */
    private static Map<String, String> namespacesOfNode() {
        Path init = PROC.resolve("1/ns");
        return namespaces(Files.isReadable(init.resolve("user")) ? init : PROC.resolve("self/ns"));
    }

    private static Map<String, String> namespaces(Path directory) {
        Map<String, String> all = new TreeMap<>();
        for (String name : NAMESPACES) {
            try {
                all.put(name, Files.readSymbolicLink(directory.resolve(name)).toString());
            } catch (IOException e) {
                // A kernel without this kind; or one that does not say, where nothing is taken for the node's own.
                all.put(name, "");
            }
        }
        return all;
    }

    static Map<String, long[]> limits(Path proc) throws IOException {
        Map<String, long[]> limits = new TreeMap<>();
        for (String line : lines(proc.resolve("limits"))) {
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

    static ThreadRights thread(Path task, Map<String, long[]> limits, Map<String, String> node) throws IOException {
        Map<String, String> status = new TreeMap<>();
        for (String line : lines(task.resolve("status"))) {
            int colon = line.indexOf(':');
            if (colon > 0) {
                status.put(line.substring(0, colon), line.substring(colon + 1).trim());
            }
        }
        Map<String, String> own = namespaces(task.resolve("ns"));
        Set<String> shared = new TreeSet<>();
        for (String name : NAMESPACES) {
            if (own.get(name).equals(node.get(name))) {
                shared.add(name);
            }
        }
        // After the name in brackets, which may hold anything: state is word 0, as field 3 of proc(5).
        String stat = Files.readString(task.resolve("stat"), StandardCharsets.ISO_8859_1);
        String[] words = stat.substring(stat.lastIndexOf(')') + 2).trim().split(" ", -1);
        String pids = status.getOrDefault("NSpid", task.getFileName().toString());
        return new ThreadRights(
                Integer.parseInt(pids.substring(pids.lastIndexOf('\t') + 1).trim()),
                numbers(status.get("Uid")),
                numbers(status.get("Gid")),
                numbers(status.getOrDefault("Groups", "")),
                ThreadRights.CAPABILITY_SETS.stream()
                        .map(set -> Long.parseUnsignedLong(status.getOrDefault(set, "0"), HEX))
                        .toList(),
                ProcStat.lastCapability(),
                Integer.parseInt(status.getOrDefault("Seccomp", "0")),
                Integer.parseInt(status.getOrDefault("Seccomp_filters", "0")),
                status.getOrDefault("NoNewPrivs", "0").equals("1"),
                shared,
                Integer.parseInt(words[16]),
                Integer.parseInt(words[37]),
                Integer.parseInt(words[38]),
                limits);
    }

    private static Set<Integer> numbers(String words) {
        return words.isBlank()
                ? Set.of()
                : Arrays.stream(words.trim().split("\\s+", -1))
                        .map(Integer::parseUnsignedInt)
                        .collect(Collectors.toCollection(TreeSet::new));
    }

    static void descriptors(Path task, Set<OpenFile> files, Set<String> others) throws IOException {
        for (Path descriptor : list(task.resolve("fd"))) {
            String target = Files.readSymbolicLink(descriptor).toString();
            if (!target.startsWith("/")) {
                int end = target.startsWith("anon_inode:") ? target.length() : target.indexOf(':');
                others.add(end < 0 ? target : target.substring(0, end));
                continue;
            }
            int flags = 0;
            for (String line : lines(task.resolve("fdinfo").resolve(descriptor.getFileName()))) {
                if (line.startsWith("flags:")) {
                    flags = Integer.parseInt(line.substring("flags:".length()).trim(), OCTAL);
                }
            }
            boolean only = (flags & O_PATH) != 0;
            int mode = flags & ACCESS_MODE;
            files.add(named(descriptor, !only && mode != 1, !only && (mode == 1 || mode == READ_WRITE)));
        }
    }

    /** The file behind one of the kernel's links; it is looked at through the link, so nothing can be put between. */
    private static OpenFile named(Path link, boolean reads, boolean writes) throws IOException {
        String path = Files.readSymbolicLink(link).toString();
        return new OpenFile(path, owner(link), reads, writes);
    }

    private static int owner(Path link) throws IOException {
        try {
            return (Integer) Files.getAttribute(link, "unix:uid");
        } catch (NoSuchFileException e) {
            throw e;
        } catch (FileSystemException e) {
            // A service without CAP_SYS_ADMIN may not follow map_files: then the path alone is compared.
            return -1;
        }
    }

    static void mappings(Path proc, Set<OpenFile> files) throws IOException {
        mappings(proc, files, KernelFeatures.here());
    }

    /**
     * Reads the mapped files. A private mapping never changes its file, however that was opened; a shared one can be
     * made writable if the file was opened so. The modes of {@code map_files} say that, on a kernel that has it.
     */
    static void mappings(Path proc, Set<OpenFile> files, KernelFeatures kernel) throws IOException {
        if (!kernel.has(Feature.MAP_FILES)) {
            MappedPaths.read(proc, files);
            return;
        }
        Set<String> seen = new LinkedHashSet<>();
        for (String line : lines(proc.resolve("maps"))) {
            String[] fields = line.split(" +", MAPS_FIELDS);
            if (fields.length < MAPS_FIELDS || !fields[MAPS_PATH].startsWith("/")) {
                continue;
            }
            boolean shared = fields[1].charAt(SHARED_LETTER) == 's';
            if (!shared && !seen.add(line.substring(line.indexOf(fields[MAPS_DEVICE])))) {
                continue;
            }
            Path link = proc.resolve("map_files").resolve(address(fields[0]));
            int mode = (Integer) Files.getAttribute(link, "unix:mode", LinkOption.NOFOLLOW_LINKS);
            files.add(named(link, !shared || (mode & OWNER_READS) != 0, shared && (mode & OWNER_WRITES) != 0));
        }
    }

    /** {@code map_files} has the addresses without the zeros that {@code maps} puts before them. */
    private static String address(String range) {
        int dash = range.indexOf('-');
        return Long.toHexString(Long.parseUnsignedLong(range.substring(0, dash), HEX)) + "-"
                + Long.toHexString(Long.parseUnsignedLong(range.substring(dash + 1), HEX));
    }

    // ---- as text, for the way to the target --------------------------------------------------------------------

    /** A line for each thread, file, root and other descriptor. */
    public List<String> lines() {
        List<String> lines = new ArrayList<>();
        threads.forEach(thread -> lines.add("thread " + thread.words()));
        files.forEach(file -> lines.add("file " + (file.reads() ? "r" : "-") + (file.writes() ? "w" : "-") + " "
                + file.ownerUid() + " " + file.path()));
        roots.forEach(root -> lines.add("root " + root));
        others.forEach(other -> lines.add("other " + other));
        return lines;
    }

    /** Reads what {@link #lines} has written; throws and names the line that does not fit. */
    public static RankRights parse(List<String> lines) throws CheckpointException {
        List<ThreadRights> threads = new ArrayList<>();
        Set<OpenFile> files = new LinkedHashSet<>();
        Set<String> roots = new LinkedHashSet<>();
        Set<String> others = new LinkedHashSet<>();
        for (String line : lines) {
            try {
                int space = line.indexOf(' ');
                String rest = line.substring(space + 1);
                switch (line.substring(0, Math.max(space, 0))) {
                    case "thread" -> threads.add(ThreadRights.parse(rest));
                    case "file" -> {
                        String[] words = rest.split(" ", 3);
                        files.add(new OpenFile(
                                words[2],
                                Integer.parseInt(words[1]),
                                words[0].charAt(0) == 'r',
                                words[0].charAt(1) == 'w'));
                    }
                    case "root" -> roots.add(rest);
                    case "other" -> others.add(rest);
                    default -> throw new IllegalArgumentException("it begins with no known word");
                }
            } catch (IllegalArgumentException | IndexOutOfBoundsException e) {
                throw new CheckpointException(
                        "the record of what the originals may do has a line that cannot be read: '" + line + "' (" + e
                                + "). Remedy: install the same release on both nodes",
                        e);
            }
        }
        return new RankRights(threads, files, roots, others);
    }
}
