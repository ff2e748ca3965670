package io.ppmr.checkpoint;

import io.ppmr.checkpoint.state.ObjectOwner;
import io.ppmr.checkpoint.state.SecurityLabel;
import io.ppmr.checkpoint.state.SocketReader;
import io.ppmr.checkpoint.state.ThreadSettings;
import io.ppmr.checkpoint.state.WaitingSignals;
import io.ppmr.os.FileMappings;
import io.ppmr.os.FileMappings.FileMapping;
import io.ppmr.os.KernelFeatures;
import io.ppmr.os.KernelFeatures.Feature;
import io.ppmr.os.ProcFiles;
import io.ppmr.os.ProcStat;
import io.ppmr.os.ProcessIdentity;
import io.ppmr.os.Processors;
import java.io.Closeable;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Describes what the processes of a rank may do and what they have open, read from {@code /proc} while they are
 * stopped. The source reads it of the originals and sends it before the image is whole; the target reads it of the
 * copies and compares the two before it votes ({@link RightsCheck}), so neither journal holds it: an attempt that a
 * restart of a service interrupts before the vote is rolled back, and after the vote it has been compared.
 *
 * <p>It is a list of lines in order, each once: what each thread may do; what is open or mapped, with the programs and
 * the working directories; the root directories; the kinds of descriptors without a path, such as {@code
 * anon_inode:[eventfd]}; and the settings of threads, sockets and pipes that CRIU leaves out and {@link
 * SettingsRestore} gives the copies. A user decides how many there are, so they lie in a file until {@link #close},
 * unless they are few, and both sides go through them one by one. Owned by one thread.
 *
 * <p>The kernel shows the securebits of another process nowhere, so they are not in it; docs/security.md says what
 * bounds them all the same.
 */
public final class RankRights implements Closeable {
    private static final Logger LOG = LoggerFactory.getLogger(RankRights.class);
    private static final Path PROC = Path.of("/proc");
    private static final int OCTAL = 8;
    private static final int HEX = 16;
    private static final int ACCESS_MODE = 3;
    private static final int READ_WRITE = 2;
    private static final int O_PATH = 010000000;
    private static final int OWNER_READS = 0400;
    private static final int OWNER_WRITES = 0200;
    /** The place of the nice value among the words behind the name in {@code stat}. */
    private static final int NICE = 16;

    private static final String FLAGS = "flags:";
    private static final String SOCKET = "socket:[";
    private static final String PIPE = "pipe:[";

    /** No file of a process's or thread's own that is read here as a whole is longer. */
    private static final int LONGEST_FILE = 1 << 20;

    static final String SHARED_MEMORY = "/dev/zero (deleted)";

    /** Memory that belongs to no file and that no path leads to. */
    static final Set<String> ANONYMOUS_MEMORY = Set.of(SHARED_MEMORY, "/anon_hugepage (deleted)", "/[aio] (deleted)");

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

    private final SortedLines lines;
    private final RightsSummary summary;

    RankRights(SortedLines lines, RightsSummary summary) {
        this.lines = lines;
        this.summary = summary;
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

    /** Takes what is found, one by one. */
    @FunctionalInterface
    interface Taker<T> {
        void take(T one) throws IOException, CheckpointException;
    }

    /** Takes pages of lines. */
    @FunctionalInterface
    public interface Receiver {
        /**
         * Takes the next page.
         *
         * @param last whether no page follows
         */
        void take(List<String> page, boolean last) throws IOException;
    }

    /**
     * Hands over the lines, in order, in pages that a message carries.
     *
     * @param pageLines how many lines a page has at most
     * @param pageChars how many characters a page has at most, unless it is of one line
     */
    public void send(int pageLines, int pageChars, Receiver to) throws IOException, CheckpointException {
        List<String> page = new ArrayList<>();
        int chars = 0;
        try (SortedLines.Cursor cursor = open()) {
            for (String line = cursor.next(); line != null; line = cursor.next()) {
                if (page.size() == pageLines || (!page.isEmpty() && chars + line.length() > pageChars)) {
                    to.take(page, false);
                    page = new ArrayList<>();
                    chars = 0;
                }
                page.add(line);
                chars += line.length();
            }
        }
        to.take(page, true);
    }

    /** Returns what can be said of all threads and files together. */
    RightsSummary summary() {
        return summary;
    }

    /** Returns the lines from the first one on. */
    SortedLines.Cursor open() throws CheckpointException {
        try {
            return lines.open();
        } catch (IOException e) {
            throw unreadable(e);
        }
    }

    /** Removes the file that the lines lie in. */
    @Override
    public void close() {
        try {
            lines.close();
        } catch (IOException e) {
            LOG.warn("a record of what a rank may do stays behind until its migration is over: {}", e.getMessage());
        }
    }

    static CheckpointException unreadable(IOException e) {
        return new CheckpointException(
                "the record of what a rank may do and has open cannot be written or read: " + e
                        + ". Remedy: look at the disk of the work directory",
                e);
    }

    /**
     * Reads it of processes that are stopped; one that has gone is an error by name, as are more files or threads than
     * the bounds allow. A table that threads or processes share is read once.
     *
     * @param whose for messages and the names of files: {@code rank 3}
     */
    public static RankRights read(String whose, Collection<ProcessIdentity> processes, RightsBounds bounds)
            throws CheckpointException {
        return read(whose, processes, bounds, true, true);
    }

    /** The same of processes whose copies go on elsewhere in their programs than where the originals were stopped. */
    public static RankRights readOfOthers(String whose, Collection<ProcessIdentity> processes, RightsBounds bounds)
            throws CheckpointException {
        return read(whose, processes, bounds, true, false);
    }

    /** The same of copies: of their settings nothing is read, and files have the names that the originals had. */
    static RankRights readOfCopies(String whose, Collection<ProcessIdentity> processes, RightsBounds bounds)
            throws CheckpointException {
        return read(whose, processes, bounds, false, false);
    }

    private static RankRights read(
            String whose,
            Collection<ProcessIdentity> processes,
            RightsBounds bounds,
            boolean withSettings,
            boolean withSignals)
            throws CheckpointException {
        Map<String, String> node = namespacesOfNode();
        RecentTexts seen = new RecentTexts();
        SharedTables memories = new SharedTables(SharedTables.Kind.MEMORY);
        SharedTables descriptors = new SharedTables(SharedTables.Kind.DESCRIPTORS);
        SharedTables directories = new SharedTables(SharedTables.Kind.DIRECTORIES);
        SocketReader sockets = new SocketReader();
        Set<String> owned = new HashSet<>();
        try (SortedLines.Sorter sorter =
                new SortedLines.Sorter(bounds.directory(), whose.replace(' ', '-'), SortedLines.MEMORY_CHARS)) {
            Reading reading = new Reading(whose, sorter, bounds, !withSettings);
            boolean first = withSignals;
            for (ProcessIdentity process : processes) {
                try {
                    if (first) {
                        first = false;
                        reading.leftOut(List.of(RightsLine.of(WaitingSignals.ofOriginal(process.pid()))));
                    }
                    Path proc = firstLiving(process);
                    Map<String, long[]> limits = limits(proc);
                    // A read that fails for each of thousands of threads would take long.
                    boolean labelled = withSettings && SecurityLabel.isGivenTo(process.pid());
                    BitSet usable = withSettings ? Processors.usableBy(number(proc)) : new BitSet();
                    eachLiving(process, task -> {
                        Map<String, String> status = status(task);
                        ThreadRights thread = thread(task, status, limits, node);
                        reading.thread(thread);
                        if (withSettings) {
                            if (labelled) {
                                reading.leftOut(
                                        SecurityLabel.ofConfined(number(task), thread.id()).map(RightsLine::of).stream()
                                                .toList());
                            }
                            reading.settings(ThreadSettings.read(
                                    number(task),
                                    thread.id(),
                                    status.getOrDefault("Cpus_allowed_list", ""),
                                    thread.nice(),
                                    number(task) == process.pid(),
                                    usable));
                        }
                        if (descriptors.isNew(number(task))) {
                            descriptors(task, reading::file, reading::other, (descriptor, target) -> {
                                if (withSettings) {
                                    reading.leftOut(nameless(task, thread.id(), descriptor, target, sockets, owned));
                                }
                            });
                        }
                        if (directories.isNew(number(task))) {
                            reading.uncounted(named(task.resolve("cwd"), false, false));
                            reading.root(link(task + "/root"));
                        }
                    });
                    if (memories.isNew(number(proc))) {
                        mappings(proc, reading::file, KernelFeatures.here(), seen);
                    }
                    reading.uncounted(named(proc.resolve("exe"), true, false));
                } catch (IOException | DirectoryIteratorException | IllegalArgumentException e) {
                    throw unreadable(process, e);
                }
            }
            return new RankRights(sorter.sorted(), reading.summary);
        } catch (IOException e) {
            throw unreadable(e);
        }
    }

    /**
     * Throws, and says what helps, if processes have more files open or mapped, or more threads, than the bounds allow.
     * They run meanwhile, so {@link #read} counts once more; one that ends is none.
     */
    public static void requireReadable(String whose, Collection<ProcessIdentity> processes, RightsBounds bounds)
            throws CheckpointException {
        Counting counting = new Counting(whose, bounds);
        RecentTexts seen = new RecentTexts();
        SharedTables memories = new SharedTables(SharedTables.Kind.MEMORY);
        SharedTables descriptors = new SharedTables(SharedTables.Kind.DESCRIPTORS);
        for (ProcessIdentity process : processes) {
            try {
                eachLiving(process, task -> {
                    counting.thread();
                    if (descriptors.isNew(number(task))) {
                        each(task.resolve("fd"), descriptor -> counting.file());
                    }
                });
                Path proc = firstLiving(process);
                if (memories.isNew(number(proc))) {
                    eachMapping(proc, seen, mapping -> counting.file());
                }
            } catch (IOException | DirectoryIteratorException e) {
                if (new ProcessTable().isAlive(process)) {
                    throw unreadable(process, e);
                }
            }
        }
    }

    private static CheckpointException unreadable(ProcessIdentity process, Exception e) {
        return new CheckpointException(
                "what PID " + process.pid() + " may do and has open cannot be read from /proc: " + e
                        + ". Remedy: run the service as root; where the process is gone, look at why it ended",
                e);
    }

    /** Tells what each thread of a rank may do. */
    static void threads(Collection<ProcessIdentity> processes, Taker<ThreadRights> taker) throws CheckpointException {
        Map<String, String> node = namespacesOfNode();
        for (ProcessIdentity process : processes) {
            try {
                Map<String, long[]> limits = limits(firstLiving(process));
                eachLiving(process, task -> taker.take(thread(task, status(task), limits, node)));
            } catch (IOException | DirectoryIteratorException | IllegalArgumentException e) {
                throw unreadable(process, e);
            }
        }
    }

    /** Reads the limits and the nice values alone. */
    static RightsSummary shares(Collection<ProcessIdentity> processes) throws CheckpointException {
        RightsSummary summary = new RightsSummary();
        for (ProcessIdentity process : processes) {
            try {
                Map<String, long[]> limits = limits(firstLiving(process));
                eachLiving(process, task -> summary.add(Integer.parseInt(statWords(task)[NICE]), limits));
            } catch (IOException | DirectoryIteratorException | IllegalArgumentException e) {
                throw unreadable(process, e);
            }
        }
        return summary;
    }

    /** Counts what is read, and says so where it is too much. */
    private static class Counting {
        private final String whose;
        private final RightsBounds bounds;
        private int files;
        private int threads;

        Counting(String whose, RightsBounds bounds) {
            this.whose = whose;
            this.bounds = bounds;
        }

        final void thread() throws CheckpointException {
            require(++threads, "threads");
        }

        final void file() throws CheckpointException {
            require(++files, "files open or mapped");
        }

        private void require(int count, String what) throws CheckpointException {
            bounds.requireWanted();
            if (count > bounds.mostFiles()) {
                throw new CheckpointException(whose + " has more than " + bounds.mostFiles() + " " + what
                        + " (rank_files). Remedy: have the job close what it does not need, or set a larger rank_files"
                        + " in the configuration of both nodes");
            }
        }
    }

    /** Puts what is read into lines. */
    private static final class Reading extends Counting {
        private final SortedLines.Sorter sorter;
        private final boolean isOfCopies;
        private final RightsSummary summary = new RightsSummary();

        Reading(String whose, SortedLines.Sorter sorter, RightsBounds bounds, boolean isOfCopies) {
            super(whose, bounds);
            this.sorter = sorter;
            this.isOfCopies = isOfCopies;
        }

        void thread(ThreadRights thread) throws IOException, CheckpointException {
            thread();
            summary.add(thread);
            add(RightsLine.of(thread));
        }

        void file(OpenFile file) throws IOException, CheckpointException {
            file();
            uncounted(file);
        }

        /** Takes a file that each thread or process has, as they are counted themselves. */
        void uncounted(OpenFile file) throws IOException, CheckpointException {
            OpenFile named = isOfCopies
                    ? new OpenFile(CriuNames.original(file.path()), file.ownerUid(), file.reads(), file.writes())
                    : file;
            summary.add(named);
            add(RightsLine.of(named));
        }

        void other(String kind) throws IOException, CheckpointException {
            file();
            add(RightsLine.other(kind));
        }

        void settings(Optional<ThreadSettings> settings) throws IOException, CheckpointException {
            leftOut(settings.map(RightsLine::of).stream().toList());
        }

        /** Takes what CRIU leaves out of a thread, a socket or a pipe. */
        void leftOut(List<String> lines) throws IOException, CheckpointException {
            for (String line : lines) {
                summary.addSettings();
                add(line);
            }
        }

        void root(String directory) throws IOException, CheckpointException {
            add(RightsLine.root(directory));
        }

        private void add(String line) throws IOException, CheckpointException {
            if (line.length() > SortedLines.MAX_LINE_CHARS) {
                throw new CheckpointException("a line of the record of what it may do has " + line.length()
                        + " characters, " + SortedLines.MAX_LINE_CHARS
                        + " are carried. Remedy: its user is in too many groups to be moved");
            }
            sorter.add(line);
        }
    }

    // ---- reading /proc -----------------------------------------------------------------------------------------

    private static int number(Path task) {
        return Integer.parseInt(task.getFileName().toString());
    }

    /** Tells each entry of a directory, of which a user decides how many there are. */
    private static void each(Path directory, Taker<Path> taker) throws IOException, CheckpointException {
        try (DirectoryStream<Path> found = Files.newDirectoryStream(directory)) {
            for (Path entry : found) {
                taker.take(entry);
            }
        }
    }

    private static Path tasks(ProcessIdentity process) {
        return PROC.resolve(Integer.toString(process.pid())).resolve("task");
    }

    private static boolean isLiving(Path task) {
        return ProcStat.read(task.resolve("stat"))
                .filter(stat -> !stat.isDead())
                .isPresent();
    }

    /** Tells the directory of each thread that lives. */
    private static void eachLiving(ProcessIdentity process, Taker<Path> taker) throws IOException, CheckpointException {
        each(tasks(process), task -> {
            if (isLiving(task)) {
                taker.take(task);
            }
        });
    }

    /** A first thread that has ended shows nothing of what the others still share. */
    private static Path firstLiving(ProcessIdentity process) throws IOException {
        try (DirectoryStream<Path> found = Files.newDirectoryStream(tasks(process), RankRights::isLiving)) {
            for (Path task : found) {
                return PROC.resolve(task.getFileName());
            }
        }
        throw new IOException("it has ended");
    }

    /** The numbers of a process's threads as this service sees them. */
    static List<String> threadIds(ProcessIdentity process) throws CheckpointException {
        List<String> ids = new ArrayList<>();
        try {
            eachLiving(process, task -> ids.add(task.getFileName().toString()));
        } catch (IOException | DirectoryIteratorException e) {
            throw new CheckpointException("the threads of PID " + process.pid() + " cannot be listed: " + e, e);
        }
        return ids;
    }

    private static List<String> lines(Path file) throws IOException {
        return ProcFiles.text(file.toString(), LONGEST_FILE)
                .orElseThrow(() -> new NoSuchFileException(file.toString()))
                .lines()
                .toList();
    }

    /** The text of one of the kernel's links. */
    private static String link(String path) throws IOException {
        String text = ProcFiles.link(path).orElseThrow(() -> new NoSuchFileException(path));
        return new String(text.getBytes(StandardCharsets.ISO_8859_1), StandardCharsets.UTF_8);
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
                all.put(name, link(directory + "/" + name));
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

    /** The lines of a thread's status, proc_pid_status(5), by their names. */
    static Map<String, String> status(Path task) throws IOException {
        Map<String, String> status = new TreeMap<>();
        for (String line : lines(task.resolve("status"))) {
            int colon = line.indexOf(':');
            if (colon > 0) {
                status.put(line.substring(0, colon), line.substring(colon + 1).trim());
            }
        }
        return status;
    }

    private static int ownNumber(Path task, Map<String, String> status) {
        String pids = status.getOrDefault("NSpid", task.getFileName().toString());
        return Integer.parseInt(pids.substring(pids.lastIndexOf('\t') + 1).trim());
    }

    /** Returns a thread's number as it sees it itself. */
    static int ownNumber(Path task) throws IOException {
        return ownNumber(task, status(task));
    }

    static ThreadRights thread(
            Path task, Map<String, String> status, Map<String, long[]> limits, Map<String, String> node)
            throws IOException {
        Map<String, String> own = namespaces(task.resolve("ns"));
        Set<String> shared = new TreeSet<>();
        for (String name : NAMESPACES) {
            if (own.get(name).equals(node.get(name))) {
                shared.add(name);
            }
        }
        String[] words = statWords(task);
        return new ThreadRights(
                ownNumber(task, status),
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
                Integer.parseInt(words[NICE]),
                Integer.parseInt(words[37]),
                Integer.parseInt(words[38]),
                limits);
    }

    /** After the name in brackets, which may hold anything: state is word 0, as field 3 of proc(5). */
    private static String[] statWords(Path task) throws IOException {
        String stat = ProcFiles.beginning(task + "/stat").orElseThrow(() -> new NoSuchFileException(task.toString()));
        return stat.substring(stat.lastIndexOf(')') + 2).trim().split(" ", -1);
    }

    private static Set<Integer> numbers(String words) {
        return words.isBlank()
                ? Set.of()
                : Arrays.stream(words.trim().split("\\s+", -1))
                        .map(Integer::parseUnsignedInt)
                        .collect(Collectors.toCollection(TreeSet::new));
    }

    /** Takes a descriptor without a path by its link and what that shows. */
    @FunctionalInterface
    interface NamelessTaker {
        void take(Path descriptor, String target) throws IOException, CheckpointException;
    }

    /** Returns the lines of what CRIU leaves out of a socket or a pipe; none if that is nothing, or known. */
    private static List<String> nameless(
            Path task, int id, Path descriptor, String target, SocketReader sockets, Set<String> owned)
            throws IOException {
        List<String> lines = new ArrayList<>();
        boolean socket = target.startsWith(SOCKET);
        if (socket) {
            long inode = Long.parseLong(target.substring(SOCKET.length(), target.length() - 1));
            sockets.read(number(task), id, number(descriptor), inode)
                    .map(RightsLine::of)
                    .ifPresent(lines::add);
        }
        int uid = (socket || target.startsWith(PIPE)) && owned.add(target) ? owner(descriptor.toString()) : 0;
        if (uid > 0) {
            lines.add(RightsLine.of(new ObjectOwner(
                    id, number(descriptor), uid, (Integer) Files.getAttribute(descriptor, "unix:gid"))));
        }
        return lines;
    }

    static void descriptors(Path task, Taker<OpenFile> files, Taker<String> others, NamelessTaker nameless)
            throws IOException, CheckpointException {
        each(task.resolve("fd"), descriptor -> {
            String target = link(descriptor.toString());
            if (!target.startsWith("/")) {
                nameless.take(descriptor, target);
                int end = target.startsWith("anon_inode:") ? target.length() : target.indexOf(':');
                others.take(end < 0 ? target : target.substring(0, end));
                return;
            }
            int flags = flags(task + "/fdinfo/" + descriptor.getFileName());
            boolean only = (flags & O_PATH) != 0;
            int mode = flags & ACCESS_MODE;
            files.take(new OpenFile(
                    target,
                    owner(descriptor.toString()),
                    !only && mode != 1,
                    !only && (mode == 1 || mode == READ_WRITE)));
        });
    }

    private static int flags(String descriptor) throws IOException {
        // The second line; any number of record locks may stand behind it.
        String text = ProcFiles.beginning(descriptor).orElseThrow(() -> new NoSuchFileException(descriptor));
        int flags = text.indexOf(FLAGS);
        int end = text.indexOf('\n', flags);
        if (flags < 0 || end < 0) {
            throw new IOException(descriptor + " has no " + FLAGS);
        }
        return Integer.parseInt(text.substring(flags + FLAGS.length(), end).trim(), OCTAL);
    }

    /** The file behind one of the kernel's links; it is looked at through the link, so nothing can be put between. */
    private static OpenFile named(Path link, boolean reads, boolean writes) throws IOException {
        return new OpenFile(link(link.toString()), owner(link.toString()), reads, writes);
    }

    private static int owner(String link) throws IOException {
        try {
            return ProcFiles.owner(link).orElseThrow(() -> new NoSuchFileException(link));
        } catch (NoSuchFileException e) {
            throw e;
        } catch (IOException e) {
            // A service without CAP_SYS_ADMIN may not follow map_files: then the path alone is compared.
            return -1;
        }
    }

    /**
     * Reads the mapped files. A private mapping never changes its file, however that was opened; a shared one can be
     * made writable if the file was opened so. The modes of {@code map_files} say that, on a kernel that has it.
     *
     * @param seen the private mappings that were read lately, each without its addresses
     */
    static void mappings(Path proc, Taker<OpenFile> files, KernelFeatures kernel, RecentTexts seen)
            throws IOException, CheckpointException {
        if (!kernel.has(Feature.MAP_FILES)) {
            MappedPaths.read(proc, files, seen);
            return;
        }
        eachMapping(proc, seen, mapping -> {
            Path link = proc.resolve("map_files").resolve(mapping.link());
            boolean shared = mapping.shared();
            int mode = shared ? (Integer) Files.getAttribute(link, "unix:mode", LinkOption.NOFOLLOW_LINKS) : 0;
            OpenFile file = named(link, !shared || (mode & OWNER_READS) != 0, shared && (mode & OWNER_WRITES) != 0);
            if (file.path().startsWith("/")) {
                files.take(file);
            }
        });
    }

    /** Tells each mapping of a file; of private ones of the same file mostly the first. */
    private static void eachMapping(Path proc, RecentTexts seen, Taker<FileMapping> taker)
            throws IOException, CheckpointException {
        FileMappings.<CheckpointException>each(proc + "/maps", mapping -> {
            if (mapping.shared() || seen.isNew(mapping.file())) {
                taker.take(mapping);
            }
        });
    }
}
