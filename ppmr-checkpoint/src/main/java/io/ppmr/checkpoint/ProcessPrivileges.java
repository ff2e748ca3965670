package io.ppmr.checkpoint;

import io.ppmr.checkpoint.sharing.EscapedName;
import io.ppmr.checkpoint.state.ObjectOwner;
import io.ppmr.checkpoint.state.SecurityLabel;
import io.ppmr.checkpoint.state.SocketReader;
import io.ppmr.checkpoint.state.ThreadSettings;
import io.ppmr.checkpoint.state.WaitingSignals;
import io.ppmr.os.FileMappings;
import io.ppmr.os.FileMappings.FileMapping;
import io.ppmr.os.KernelFeatures;
import io.ppmr.os.KernelFeatures.Feature;
import io.ppmr.os.ProcFolder;
import io.ppmr.os.ProcStat;
import io.ppmr.os.ProcessIdentity;
import io.ppmr.os.Processors;
import io.ppmr.os.Scheduling;
import java.io.Closeable;
import java.io.IOException;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Describes what the processes of a rank may do and what they have open, read from {@code /proc} while they are
 * stopped. The source reads it of the originals and sends it before the image is whole; the target reads it of the
 * copies and compares the two before it votes ({@link PrivilegeCheck}), so neither journal holds it: an attempt that a
 * restart of a service interrupts before the vote is rolled back, and after the vote it has been compared.
 *
 * <p>It is a list of lines in order, each once: what each thread may do; what is open or mapped, with the programs and
 * the working directories; the root directories; the kinds of descriptors without a path, such as {@code
 * anon_inode:[eventfd]}; and the settings of threads, sockets and pipes that CRIU leaves out and {@link
 * SettingsRestore} gives the copies. A user decides how many there are, so they lie in a file until {@link #close},
 * unless they are few, and both sides go through them one by one. Owned by one thread.
 *
 * <p>The kernel shows the securebits of another process nowhere, so they are not in it; docs/internals/security.md says
 * what bounds them all the same.
 */
public final class ProcessPrivileges implements Closeable {
    private static final Logger LOG = LoggerFactory.getLogger(ProcessPrivileges.class);
    private static final Path PROC = Path.of("/proc");
    private static final int OWNER_READS = 0400;
    private static final int OWNER_WRITES = 0200;

    private static final String SOCKET = "socket:[";
    private static final String PIPE = "pipe:[";

    static final String SHARED_MEMORY = "/dev/zero (deleted)";

    /** Memory that belongs to no file and that no path leads to. */
    static final Set<String> ANONYMOUS_MEMORY = Set.of(SHARED_MEMORY, "/anon_hugepage (deleted)", "/[aio] (deleted)");

    /** The path that shared memory has after CRIU has restored it. */
    static final String UNNAMED_MEMORY = "/memfd: (deleted)";

    private final SortedLines lines;
    private final RightsSummary summary;

    ProcessPrivileges(SortedLines lines, RightsSummary summary) {
        this.lines = lines;
        this.summary = summary;
    }

    /**
     * A file by its path.
     *
     * @param path as the kernel shows it, a character from 0 to 255 for each byte; a file without a name left ends with
     *     {@code (deleted)}
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
            return EscapedName.text(path) + " (of user " + ownerUid + ") open for " + mode;
        }
    }

    /** Takes what is found, one by one. */
    @FunctionalInterface
    interface Receiver<T> {
        void take(T one) throws IOException, CheckpointException;
    }

    /** Takes pages of lines. */
    @FunctionalInterface
    public interface PageReceiver {
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
    public void send(int pageLines, int pageChars, PageReceiver to) throws IOException, CheckpointException {
        List<String> page = new ArrayList<>();
        int chars = 0;
        try (SortedLines.Cursor cursor = stored("")) {
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

    /** Returns the lines from the first one on, each with all that it says. */
    RightsCursor open() throws CheckpointException {
        return new RightsCursor(stored(""));
    }

    /** Returns those of threads: what they share comes before them. Files, of which there may be many, are left out. */
    RightsCursor openThreads() throws CheckpointException {
        return new RightsCursor(stored(RightsLine.SHARED));
    }

    /** Returns those behind the files. */
    RightsCursor openBehindFiles() throws CheckpointException {
        return new RightsCursor(stored(RightsLine.BEHIND_FILES));
    }

    private SortedLines.Cursor stored(String from) throws CheckpointException {
        try {
            return lines.open(from);
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
    public static ProcessPrivileges read(String whose, Collection<ProcessIdentity> processes, RightsBounds bounds)
            throws CheckpointException {
        return read(whose, processes, bounds, true, true);
    }

    /**
     * The same of processes whose copies continue elsewhere in their programs than where the originals were stopped.
     */
    public static ProcessPrivileges readOfOthers(
            String whose, Collection<ProcessIdentity> processes, RightsBounds bounds) throws CheckpointException {
        return read(whose, processes, bounds, true, false);
    }

    /** The same of copies: of their settings nothing is read, and files have the names that the originals had. */
    static ProcessPrivileges readOfCopies(String whose, Collection<ProcessIdentity> processes, RightsBounds bounds)
            throws CheckpointException {
        return read(whose, processes, bounds, false, false);
    }

    private static ProcessPrivileges read(
            String whose,
            Collection<ProcessIdentity> processes,
            RightsBounds bounds,
            boolean withSettings,
            boolean withSignals)
            throws CheckpointException {
        RecentTexts seen = new RecentTexts();
        SharedTables memories = new SharedTables(SharedTables.TableKind.MEMORY);
        SharedTables descriptors = new SharedTables(SharedTables.TableKind.DESCRIPTORS);
        SharedTables directories = new SharedTables(SharedTables.TableKind.DIRECTORIES);
        SocketReader sockets = new SocketReader();
        Set<String> owned = new HashSet<>();
        try (SortedLines.Sorter sorter =
                new SortedLines.Sorter(bounds.directory(), whose.replace(' ', '-'), SortedLines.MEMORY_CHARS)) {
            Reading reading = new Reading(whose, sorter, bounds, !withSettings);
            boolean first = withSignals;
            Map<String, String> node = ProcessRights.namespacesOfNode();
            for (ProcessIdentity process : processes) {
                try {
                    if (first) {
                        first = false;
                        reading.leftOut(List.of(RightsLine.of(WaitingSignals.ofOriginal(process.pid()))));
                    }
                    Path proc = firstLiving(process);
                    ProcessRights common = ProcessRights.read(proc, node);
                    // A read that fails for each of thousands of threads would take long.
                    boolean labelled = withSettings && SecurityLabel.isGivenTo(process.pid());
                    BitSet usable = withSettings ? Processors.usableBy(number(proc)) : new BitSet();
                    ThreadRightsReader reader = new ThreadRightsReader(common, withSettings);
                    FolderLooks.FolderLook<Seen> look = (threads, name) -> {
                        Optional<LivingThread> living = LivingThread.of(threads, name);
                        return living.isPresent()
                                ? Optional.of(Seen.of(
                                        living.get(),
                                        reader,
                                        living.get().number() == process.pid(),
                                        labelled,
                                        withSettings ? Optional.of(usable) : Optional.empty()))
                                : Optional.empty();
                    };
                    FolderLooks.threads(process.pid(), look, found -> {
                        LivingThread task = found.thread();
                        reading.thread(found.id(), found.rights());
                        reading.leftOut(found.leftOut());
                        if (descriptors.isNew(task.number())) {
                            try (ProcFolder open = task.folder("fd")) {
                                descriptors(open, reading::file, reading::other, (descriptor, target) -> {
                                    if (withSettings) {
                                        reading.leftOut(nameless(
                                                new Nameless(task.number(), found.id(), open, descriptor, target),
                                                sockets,
                                                owned));
                                    }
                                });
                            }
                        }
                        if (directories.isNew(task.number())) {
                            try (ProcFolder own = task.folder("")) {
                                reading.uncounted(named(own, "cwd", false, false));
                                reading.root(link(own, "root"));
                            }
                        }
                        return true;
                    });
                    try (ProcFolder own = ProcFolder.open(proc.toString())) {
                        if (memories.isNew(number(proc))) {
                            mappings(own, reading::file, KernelFeatures.here(), seen);
                        }
                        reading.uncounted(named(own, "exe", true, false));
                    }
                } catch (IOException | DirectoryIteratorException | IllegalArgumentException e) {
                    throw unreadable(process, e);
                }
            }
            return new ProcessPrivileges(sorter.sorted(), reading.summary);
        } catch (IOException e) {
            throw unreadable(e);
        }
    }

    /** One thread with its own number, its rights, and the lines of what CRIU leaves out. */
    private record Seen(LivingThread thread, int id, ThreadRightsReader.Read rights, List<String> leftOut) {
        /**
         * Reads it.
         *
         * @param isFirst whether it is its process's first thread
         * @param labelled whether a security module gives its process a label
         * @param usable the processors that its process can use; empty where no settings are read
         */
        static Seen of(
                LivingThread thread,
                ThreadRightsReader reader,
                boolean isFirst,
                boolean labelled,
                Optional<BitSet> usable)
                throws IOException {
            int id = ProcessRights.ownNumber(thread);
            Scheduling scheduling = thread.scheduling();
            ThreadRightsReader.Read rights = reader.read(thread, scheduling);
            List<String> leftOut = new ArrayList<>();
            if (labelled) {
                SecurityLabel.ofConfined(thread.number(), id)
                        .map(RightsLine::of)
                        .ifPresent(leftOut::add);
            }
            if (usable.isPresent()) {
                ThreadSettings.read(
                                thread.number(),
                                id,
                                thread.status().value("Cpus_allowed_list").orElse(""),
                                scheduling.nice(),
                                isFirst,
                                usable.get())
                        .map(RightsLine::of)
                        .ifPresent(leftOut::add);
            }
            return new Seen(thread, id, rights, leftOut);
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
        SharedTables memories = new SharedTables(SharedTables.TableKind.MEMORY);
        SharedTables descriptors = new SharedTables(SharedTables.TableKind.DESCRIPTORS);
        for (ProcessIdentity process : processes) {
            List<Placed> first = new ArrayList<>();
            try {
                FolderLooks.<Placed>threads(process.pid(), Placed::of, placed -> {
                    LivingThread thread = placed.thread();
                    counting.thread();
                    requireAlike(whose, process, first, placed);
                    if (descriptors.isNew(thread.number())) {
                        try (ProcFolder open = thread.folder("fd")) {
                            open.<CheckpointException>each(descriptor -> {
                                counting.file();
                                return true;
                            });
                        }
                    }
                    return true;
                });
                Path proc = firstLiving(process);
                if (memories.isNew(number(proc))) {
                    eachMapping(proc.toString(), seen, mapping -> counting.file());
                }
            } catch (IOException | DirectoryIteratorException e) {
                if (new ProcessTable().isAlive(process)) {
                    throw unreadable(process, e);
                }
            }
        }
    }

    /** A thread with its namespaces. */
    private record Placed(LivingThread thread, List<String> namespaces) {
        static Optional<Placed> of(ProcFolder threads, String name) throws IOException {
            try {
                Optional<LivingThread> thread = LivingThread.of(threads, name);
                return thread.isPresent()
                        ? Optional.of(new Placed(thread.get(), ProcessRights.namespacesOf(thread.get())))
                        : Optional.empty();
            } catch (NoSuchFileException ended) {
                return Optional.empty();
            }
        }
    }

    /** Checkpointers take the namespaces of one thread for those of its process. */
    private static void requireAlike(String whose, ProcessIdentity process, List<Placed> first, Placed placed)
            throws CheckpointException {
        // One that is just ending shows none.
        if (placed.namespaces().stream().allMatch(String::isEmpty)) {
            return;
        }
        if (first.isEmpty()) {
            first.add(placed);
            return;
        }
        List<String> others = new ArrayList<>(placed.namespaces());
        others.removeAll(first.get(0).namespaces());
        if (!others.isEmpty()) {
            throw new CheckpointException(whose + ": threads "
                    + first.get(0).thread().name() + " and "
                    + placed.thread().name() + " of PID " + process.pid() + " live in different namespaces (" + others
                    + " is of the second alone), and a copy's threads would all live in the same ones. Remedy: have the"
                    + " job do in a process of its own what a thread does behind unshare(2) or setns(2)");
        }
    }

    private static CheckpointException unreadable(ProcessIdentity process, Exception e) {
        return new CheckpointException(
                "what PID " + process.pid() + " may do and has open cannot be read from /proc: " + e
                        + ". Remedy: run the service as root; where the process is gone, look at why it ended",
                e);
    }

    /** Tells what each thread of a rank may do. */
    static void threads(Collection<ProcessIdentity> processes, Receiver<ThreadRights> taker)
            throws CheckpointException {
        for (ProcessIdentity process : processes) {
            try {
                ProcessRights common = ProcessRights.read(firstLiving(process), ProcessRights.namespacesOfNode());
                LivingThread.each(process, thread -> taker.take(common.thread(thread, thread.scheduling())));
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
                Map<String, long[]> limits = ProcessRights.limits(firstLiving(process));
                LivingThread.each(
                        process, thread -> summary.add(thread.scheduling().nice(), limits));
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
        private final SharedRights shared = new SharedRights();

        Reading(String whose, SortedLines.Sorter sorter, RightsBounds bounds, boolean isOfCopies) {
            super(whose, bounds);
            this.sorter = sorter;
            this.isOfCopies = isOfCopies;
        }

        void thread(int id, ThreadRightsReader.Read read) throws IOException, CheckpointException {
            thread();
            Optional<String> number = shared.number(read.words());
            if (number.isEmpty()) {
                summary.add(read.rights());
                number = shared.add(read.words());
                if (number.isPresent()) {
                    add(RightsLine.shared(number.get(), read.words()));
                }
            }
            add(number.isPresent() ? RightsLine.referring(id, number.get()) : RightsLine.of(id, read.words()));
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

    private static int number(Path proc) {
        return Integer.parseInt(proc.getFileName().toString());
    }

    /** A first thread that has ended shows nothing of what the others still share. */
    private static Path firstLiving(ProcessIdentity process) throws IOException {
        Path threads = PROC.resolve(Integer.toString(process.pid())).resolve("task");
        try (DirectoryStream<Path> found = Files.newDirectoryStream(threads, ProcessPrivileges::isLiving)) {
            for (Path thread : found) {
                return PROC.resolve(thread.getFileName());
            }
        }
        throw new IOException("it has ended");
    }

    private static boolean isLiving(Path thread) {
        return ProcStat.read(thread.resolve("stat"))
                .filter(stat -> !stat.isDead())
                .isPresent();
    }

    /** The numbers of a process's threads as this service sees them. */
    static List<String> threadIds(ProcessIdentity process) throws CheckpointException {
        List<String> ids = new ArrayList<>();
        try {
            LivingThread.each(process, thread -> ids.add(thread.name()));
        } catch (IOException | DirectoryIteratorException e) {
            throw new CheckpointException("the threads of PID " + process.pid() + " cannot be listed: " + e, e);
        }
        return ids;
    }

    private static String link(ProcFolder folder, String name) throws IOException {
        return folder.link(name).orElseThrow(() -> new NoSuchFileException(folder + "/" + name));
    }

    /** Takes a descriptor without a path by its name and what its link shows. */
    @FunctionalInterface
    interface NamelessTaker {
        void take(String descriptor, String target) throws IOException, CheckpointException;
    }

    /** Returns the lines of what CRIU leaves out of a socket or a pipe; none if that is nothing, or known. */
    private static List<String> nameless(Nameless one, SocketReader sockets, Set<String> owned) throws IOException {
        List<String> lines = new ArrayList<>();
        int number = Integer.parseInt(one.descriptor());
        String target = one.target();
        boolean socket = target.startsWith(SOCKET);
        if (socket) {
            long inode = Long.parseLong(target.substring(SOCKET.length(), target.length() - 1));
            sockets.read(one.thread(), one.id(), number, inode)
                    .map(RightsLine::of)
                    .ifPresent(lines::add);
        }
        if ((socket || target.startsWith(PIPE)) && owned.add(target)) {
            one.open()
                    .status(one.descriptor())
                    .filter(object -> object.uid() != 0)
                    .map(object -> RightsLine.of(new ObjectOwner(one.id(), number, object.uid(), object.gid())))
                    .ifPresent(lines::add);
        }
        return lines;
    }

    /** A descriptor without a path: of a thread, by its number here and as it sees itself, and what its link shows. */
    private record Nameless(int thread, int id, ProcFolder open, String descriptor, String target) {}

    /** Tells what a folder of descriptors shows. Its links have the modes in which their files are open. */
    static void descriptors(ProcFolder open, Receiver<OpenFile> files, Receiver<String> others, NamelessTaker nameless)
            throws IOException, CheckpointException {
        FolderLooks.each(open, ProcessPrivileges::descriptor, found -> {
            if (found.file().isPresent()) {
                files.take(found.file().get());
                return true;
            }
            String target = found.target();
            nameless.take(found.name(), target);
            int end = target.startsWith("anon_inode:") ? target.length() : target.indexOf(':');
            others.take(end < 0 ? target : target.substring(0, end));
            return true;
        });
    }

    /** A descriptor, with its file if a path leads to one. */
    private record Descriptor(String name, String target, Optional<OpenFile> file) {}

    private static Optional<Descriptor> descriptor(ProcFolder open, String name) throws IOException {
        String target = link(open, name);
        return Optional.of(new Descriptor(
                name, target, target.startsWith("/") ? Optional.of(opened(open, name, target)) : Optional.empty()));
    }

    private static OpenFile opened(ProcFolder folder, String link, String target) throws IOException {
        int mode = folder.linkMode(link).orElseThrow(() -> new NoSuchFileException(folder + "/" + link));
        return new OpenFile(target, owner(folder, link), (mode & OWNER_READS) != 0, (mode & OWNER_WRITES) != 0);
    }

    /** The file behind one of the kernel's links; it is looked at through the link, so nothing can be put between. */
    private static OpenFile named(ProcFolder folder, String link, boolean reads, boolean writes) throws IOException {
        return new OpenFile(link(folder, link), owner(folder, link), reads, writes);
    }

    private static int owner(ProcFolder folder, String link) throws IOException {
        try {
            return folder.owner(link).orElseThrow(() -> new NoSuchFileException(folder + "/" + link));
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
    static void mappings(ProcFolder process, Receiver<OpenFile> files, KernelFeatures kernel, RecentTexts seen)
            throws IOException, CheckpointException {
        if (!kernel.has(Feature.MAP_FILES)) {
            MappedPaths.read(Path.of(process.toString()), files, seen);
            return;
        }
        try (ProcFolder links = process.folder("map_files")) {
            eachMapping(process.toString(), seen, mapping -> {
                String link = mapping.link();
                String target = link(links, link);
                if (target.startsWith("/")) {
                    files.take(
                            mapping.shared()
                                    ? opened(links, link, target)
                                    : new OpenFile(target, owner(links, link), true, false));
                }
            });
        }
    }

    /** Tells each mapping of a file; of private ones of the same file mostly the first. */
    private static void eachMapping(String process, RecentTexts seen, Receiver<FileMapping> taker)
            throws IOException, CheckpointException {
        FileMappings.<CheckpointException>each(process + "/maps", mapping -> {
            if (mapping.shared() || seen.isNew(mapping.file())) {
                taker.take(mapping);
            }
        });
    }
}
