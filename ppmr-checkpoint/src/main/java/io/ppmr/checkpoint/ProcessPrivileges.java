package io.ppmr.checkpoint;

import io.ppmr.checkpoint.sharing.EscapedName;
import io.ppmr.checkpoint.state.ObjectOwner;
import io.ppmr.checkpoint.state.SecurityLabel;
import io.ppmr.checkpoint.state.SocketReader;
import io.ppmr.checkpoint.state.ThreadSettings;
import io.ppmr.checkpoint.state.WaitingSignals;
import io.ppmr.linux.FileMappings;
import io.ppmr.linux.FileMappings.FileMapping;
import io.ppmr.linux.KernelFeatures;
import io.ppmr.linux.KernelFeatures.Feature;
import io.ppmr.linux.ProcFolder;
import io.ppmr.linux.ProcStat;
import io.ppmr.linux.ProcessIdentity;
import io.ppmr.linux.Processors;
import io.ppmr.linux.Scheduling;
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
import java.util.function.IntPredicate;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Describes the privileges and open files of a rank's processes, read from {@code /proc} while they are stopped. The
 * source reads them of the originals and sends them before the image is complete. The target reads them of the copies
 * and compares both before it votes ({@link PrivilegeCheck}). Neither journal contains them. An attempt that a
 * service's restart interrupts before the vote is rolled back, and after the vote the comparison is done.
 *
 * <p>It is a list of lines in order, each once. They have each thread's privileges, the open or mapped files, programs,
 * working directories, and root directories. Further lines have the kinds of descriptors without a path, such as
 * {@code anon_inode:[eventfd]}. The last ones have the settings of threads, sockets and pipes that CRIU leaves out and
 * {@link SettingsRestore} restores. A user decides how many lines there are. Unless they are few, they are in a file
 * until {@link #close}, and both sides read them one by one. Owned by one thread.
 *
 * <p>The kernel shows the securebits of another process nowhere, so they are not included. docs/internals/security.md
 * has their bounds.
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
     * @param path path from the kernel, a character from 0 to 255 for each byte; an unlinked file ends with
     *     {@code (deleted)}
     * @param ownerUid its owner, -1 if unknown
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

    /** Receives results one by one. */
    @FunctionalInterface
    interface Receiver<T> {
        void take(T one) throws IOException, CheckpointException;
    }

    /** Receives pages of lines. */
    @FunctionalInterface
    public interface PageReceiver {
        /**
         * Receives the next page.
         *
         * @param last whether no page follows
         */
        void take(List<String> page, boolean last) throws IOException;
    }

    /**
     * Passes the lines, in order, in pages that fit a message.
     *
     * @param pageLines maximum number of lines of a page
     * @param pageChars maximum number of characters of a page, unless it has only one line
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

    /** Returns the facts of all threads and files together. */
    RightsSummary summary() {
        return summary;
    }

    /** Opens the lines from the first one, each with all its facts. */
    RightsCursor open() throws CheckpointException {
        return new RightsCursor(stored(""));
    }

    /** Opens the lines of threads, after their shared facts. It skips the files, of which there may be many. */
    RightsCursor openThreads() throws CheckpointException {
        return new RightsCursor(stored(RightsLine.SHARED));
    }

    /** Opens the lines behind the files. */
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

    /** Removes the file of the lines. */
    @Override
    public void close() {
        try {
            lines.close();
        } catch (IOException e) {
            LOG.warn(
                    "a record of a rank's privileges could not be removed before the end of its migration: {}",
                    e.getMessage());
        }
    }

    static CheckpointException unreadable(IOException e) {
        return new CheckpointException(
                "the record of a rank's privileges and open files cannot be written or read: " + e
                        + ". Remedy: check the disk of the work directory",
                e);
    }

    /**
     * Reads the privileges of stopped processes. Throws if a process is gone, or has more files or threads than the
     * bounds allow. A table that threads or processes share is read once.
     *
     * @param whose owner for messages and the names of files: {@code rank 3}
     */
    public static ProcessPrivileges read(String whose, Collection<ProcessIdentity> processes, RightsBounds bounds)
            throws CheckpointException {
        return read(whose, processes, bounds, true, true);
    }

    /**
     * Reads the privileges of processes whose copies continue elsewhere in their programs than where the originals were
     * stopped.
     */
    public static ProcessPrivileges readOfOthers(
            String whose, Collection<ProcessIdentity> processes, RightsBounds bounds) throws CheckpointException {
        return read(whose, processes, bounds, true, false);
    }

    /** Reads the privileges of copies, without their settings. Files have the names of the originals. */
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
                    // The check is done once, because a read that fails for each of thousands of threads would take
                    // long.
                    boolean labelled = withSettings && SecurityLabel.isGivenTo(process.pid());
                    BitSet usable = withSettings ? Processors.usableBy(number(proc)) : new BitSet();
                    ThreadRightsReader reader = new ThreadRightsReader(common, withSettings);
                    int leader = number(proc);
                    FolderScan.EntryInspector<Seen> look = (threads, name) -> {
                        Optional<LivingThread> living = LivingThread.of(threads, name);
                        return living.isPresent()
                                ? Optional.of(Seen.of(
                                        living.get(),
                                        reader,
                                        living.get().number() == process.pid(),
                                        labelled,
                                        withSettings ? Optional.of(usable) : Optional.empty(),
                                        one -> descriptors.isSame(leader, one) && directories.isSame(leader, one)))
                                : Optional.empty();
                    };
                    // Most threads have the tables of the first one. The scan's workers find that.
                    boolean[] read = {false};
                    FolderScan.threads(process.pid(), look, found -> {
                        LivingThread task = found.thread();
                        reading.thread(found.id(), found.rights());
                        reading.leftOut(found.leftOut());
                        if (found.hasSharedTables() && read[0]) {
                            return true;
                        }
                        read[0] |= found.hasSharedTables();
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

    /** One thread with its own number, its rights, and the lines of the settings that CRIU leaves out. */
    private record Seen(
            LivingThread thread,
            int id,
            ThreadRightsReader.Read rights,
            List<String> leftOut,
            boolean hasSharedTables) {
        /**
         * Reads a thread.
         *
         * @param isFirst whether it is its process's first thread
         * @param labelled whether a security module gives its process a label
         * @param usable processors that its process can use, or empty if no settings are read
         * @param sharing whether a thread has its tables of descriptors and of directories from its process's first one
         */
        static Seen of(
                LivingThread thread,
                ThreadRightsReader reader,
                boolean isFirst,
                boolean labelled,
                Optional<BitSet> usable,
                IntPredicate sharing)
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
            return new Seen(thread, id, rights, leftOut, sharing.test(thread.number()));
        }
    }

    /**
     * Throws, with the remedy, if processes have more open or mapped files, or more threads, than the bounds allow.
     * They run in the meantime, so {@link #read} counts again. A process that ends has none.
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
                FolderScan.<Placed>threads(process.pid(), Placed::of, placed -> {
                    LivingThread thread = placed.thread();
                    counting.thread();
                    requireAlike(whose, process, first, placed);
                    if (descriptors.isNew(thread.number())) {
                        try (ProcFolder open = thread.folder("fd")) {
                            open.<CheckpointException>forEach(descriptor -> {
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

    /** Requires equal namespaces, because checkpointers treat the namespaces of one thread as those of its process. */
    private static void requireAlike(String whose, ProcessIdentity process, List<Placed> first, Placed placed)
            throws CheckpointException {
        // A thread that is just ending shows none.
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
                    + " only in the second), but a copy's threads would all live in the same ones. Remedy: have the"
                    + " job use a process of its own for the work behind unshare(2) or setns(2)");
        }
    }

    private static CheckpointException unreadable(ProcessIdentity process, Exception e) {
        return new CheckpointException(
                "the privileges and open files of PID " + process.pid() + " cannot be read from /proc: " + e
                        + ". Remedy: run the service as root; if the process is gone, find out why it ended",
                e);
    }

    /** Passes the rights of each thread of a rank. */
    static void threads(Collection<ProcessIdentity> processes, Receiver<ThreadRights> receiver)
            throws CheckpointException {
        for (ProcessIdentity process : processes) {
            try {
                ProcessRights common = ProcessRights.read(firstLiving(process), ProcessRights.namespacesOfNode());
                LivingThread.each(process, thread -> receiver.take(common.thread(thread, thread.scheduling())));
            } catch (IOException | DirectoryIteratorException | IllegalArgumentException e) {
                throw unreadable(process, e);
            }
        }
    }

    /** Reads only the limits and the nice values. */
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

    /** Counts the entries that are read, and throws if they are too many. */
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
            bounds.requireNotCancelled();
            if (count > bounds.mostFiles()) {
                throw new CheckpointException(whose + " has more than " + bounds.mostFiles() + " " + what
                        + " (rank_files). Remedy: have the job close what it does not need, or set a larger rank_files"
                        + " in the configuration of both nodes");
            }
        }
    }

    /** Writes the entries as lines. */
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

        /** Adds a file that each thread or process has, because threads and processes are counted themselves. */
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

        /** Adds the settings that CRIU leaves out of a thread, a socket or a pipe. */
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
                throw new CheckpointException("a line of the record of its privileges has " + line.length()
                        + " characters; the limit is " + SortedLines.MAX_LINE_CHARS
                        + ". Remedy: its user is in too many groups to be moved");
            }
            sorter.add(line);
        }
    }

    // ---- reading /proc -----------------------------------------------------------------------------------------

    private static int number(Path proc) {
        return Integer.parseInt(proc.getFileName().toString());
    }

    /**
     * Returns the folder of a living thread. A first thread that ended does not show what the others still share.
     */
    private static Path firstLiving(ProcessIdentity process) throws IOException {
        Path threads = PROC.resolve(Integer.toString(process.pid())).resolve("task");
        try (DirectoryStream<Path> found = Files.newDirectoryStream(threads, ProcessPrivileges::isLiving)) {
            for (Path thread : found) {
                return PROC.resolve(thread.getFileName());
            }
        }
        throw new IOException("it ended");
    }

    private static boolean isLiving(Path thread) {
        return ProcStat.read(thread.resolve("stat"))
                .filter(stat -> !stat.isDead())
                .isPresent();
    }

    /** Returns the numbers of a process's threads in this service's PID namespace. */
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

    /** Receives a descriptor without a path, by its name and its link's target. */
    @FunctionalInterface
    interface NamelessReceiver {
        void take(String descriptor, String target) throws IOException, CheckpointException;
    }

    /**
     * Returns the lines of the settings that CRIU leaves out of a socket or a pipe, or none if there are none, or they
     * are known.
     */
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

    /**
     * A descriptor without a path. It has the thread's number here and in its own namespace, and the target of its
     * link.
     */
    private record Nameless(int thread, int id, ProcFolder open, String descriptor, String target) {}

    /** Passes the entries of a folder of descriptors. Its links have the modes in which their files are open. */
    static void descriptors(
            ProcFolder open, Receiver<OpenFile> files, Receiver<String> others, NamelessReceiver nameless)
            throws IOException, CheckpointException {
        FolderScan.each(open, ProcessPrivileges::descriptor, found -> {
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

    /**
     * Returns the file behind one of the kernel's links. It is inspected through the link, so that no other file can be
     * substituted.
     */
    private static OpenFile named(ProcFolder folder, String link, boolean reads, boolean writes) throws IOException {
        return new OpenFile(link(folder, link), owner(folder, link), reads, writes);
    }

    private static int owner(ProcFolder folder, String link) throws IOException {
        try {
            return folder.owner(link).orElseThrow(() -> new NoSuchFileException(folder + "/" + link));
        } catch (NoSuchFileException e) {
            throw e;
        } catch (IOException e) {
            // A service without CAP_SYS_ADMIN may not follow map_files. Then only the path is compared.
            return -1;
        }
    }

    /**
     * Reads the mapped files. A private mapping never changes its file, whatever its mode. A shared mapping can be made
     * writable if the file was opened for writing. If the kernel has {@code map_files}, the modes there show it.
     *
     * @param seen recently read private mappings, each without its addresses
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

    /** Passes each mapping of a file. Of private ones of the same file, it mostly passes only the first. */
    private static void eachMapping(String process, RecentTexts seen, Receiver<FileMapping> receiver)
            throws IOException, CheckpointException {
        FileMappings.<CheckpointException>forEach(process + "/maps", mapping -> {
            if (mapping.shared() || seen.isNew(mapping.file())) {
                receiver.take(mapping);
            }
        });
    }
}
