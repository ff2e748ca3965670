package io.ppmr.checkpoint;

import io.ppmr.linux.LibC;
import io.ppmr.linux.MappingLine;
import io.ppmr.linux.ProcFiles;
import io.ppmr.linux.ProcStat;
import io.ppmr.linux.ProcessIdentity;
import java.io.BufferedReader;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Finds state of a running rank that CRIU cannot move or would change. Examples are file locks, System V IPC, and
 * sessions that reach out of the rank. Others are processes that have left its tree, some pipes, and some sockets. It
 * reads {@code /proc} and touches no process. A rank changes during a scan, so after a finding it is scanned again for
 * some hundred milliseconds. A finding counts if a quarter of the scans show it. A rank that accepts TCP connections is
 * also scanned repeatedly, because one may appear at any time. On a busy node, where the rank gets no processor or
 * scans are slow, it is scanned for longer. CRIU itself may find later obstacles.
 *
 * @param proc where proc(5) is mounted
 * @param semaphores finds the last user of a semaphore
 * @param arguments CRIU's arguments and abilities
 * @param patience time of the scans of a rank with a finding
 * @param scanLimit time limit of one scan of one rank; a rank that was not scanned by then is refused
 */
record CriuLimits(Path proc, SemaphoreUsers semaphores, Arguments arguments, Duration patience, Duration scanLimit) {
    private static final Logger LOG = LoggerFactory.getLogger(CriuLimits.class);
    private static final Duration PATIENCE = Duration.ofMillis(300);
    /** Time limit of a scan, enough for tables of a million sockets. */
    private static final Duration SCAN_LIMIT = Duration.ofSeconds(10);
    /** Factor on the time for a rank that waits for the processor. */
    private static final int STARVED = 10;
    /** Minimum number of scans of a rank. On a busy node one scan can use up the whole time. */
    private static final int LEAST_SCANS = 8;
    /** Fraction (1/n) of the patience for which a rank's processes together must have run. */
    private static final int TURN = 3;

    /** First version of CRIU that may handle sockets without SO_PASSCRED. Older ones fail on them. */
    private static final int SOCKETS_SINCE_MAJOR = 4;

    private static final int SOCKETS_SINCE_MINOR = 2;
    private static final String SOCKETS_SINCE = SOCKETS_SINCE_MAJOR + "." + SOCKETS_SINCE_MINOR;

    private static final Pattern SOCKET = Pattern.compile("socket:\\[(\\d{1,18})]");

    private static final String FLAGS = "flags:";
    private static final int OCTAL = 8;
    /** The bits of x86 and of ARM. The other architecture's bit is never set for a pipe. */
    private static final long O_DIRECT = 040000 | 0200000;

    private static final String LOCK = "lock:";
    private static final int LOCK_KIND = 1;
    private static final int LOCK_MODE = 3;
    /**
     * Minimum number of words of a system call with a stack: the call's number or -1, the stack pointer, and the
     * program counter.
     */
    private static final int WORDS_WITH_A_STACK = 3;

    private static final int PAGE_BYTES = 4096;
    private static final Pattern SEGMENT = Pattern.compile("/SYSV[0-9a-f]{8} \\(deleted\\)");

    /** The kernel's functions in which a thread waits for a semaphore or a message queue. */
    private static final List<String> IPC_WAITS = List.of("semtimedop", "msgrcv", "msgsnd");

    /** Finds the last process that operated on a semaphore, semctl(2). */
    @FunctionalInterface
    interface SemaphoreUsers {
        /** Returns its PID, or 0 if there was none, -1 if it may not be read. */
        int lastUser(int set, int semaphore);
    }

    /**
     * The result of a scan of a rank.
     *
     * @param obstacle why CRIU would not move it, and the remedy
     * @param listens whether it accepts TCP connections
     */
    private record Found(Optional<String> obstacle, boolean listens) {
        static final Found NOTHING = new Found(Optional.empty(), false);

        static Found of(String obstacle) {
            return new Found(Optional.of(obstacle), false);
        }
    }

    /** The processes of a rank, the root first, among all of the node in one scan. */
    private record RankScan(ProcStat root, Map<Integer, ProcStat> all, Map<Integer, ProcStat> tree) {}

    /**
     * The arguments and abilities of CRIU.
     *
     * @param outerSessions whether a rank may be in a foreign session, so that it gets a new one
     * @param establishedTcp whether it moves TCP connections
     * @param internetSockets whether it can read this kernel's facts of sockets in Internet protocols
     */
    record Arguments(boolean outerSessions, boolean establishedTcp, boolean internetSockets) {
        /**
         * Returns the arguments and abilities of a CRIU on this node.
         *
         * @param version its version text
         * @param dump further arguments of {@code criu dump}
         */
        static Arguments of(String version, List<String> dump) {
            boolean later = CriuCheckpointer.compare(version, SOCKETS_SINCE_MAJOR, SOCKETS_SINCE_MINOR) >= 0;
            return new Arguments(
                    dump.contains("--shell-job") || dump.contains("-j"),
                    dump.contains("--tcp-established"),
                    later || LibC.givesCredentialsOfInternetSockets());
        }

        /** Returns the arguments for a pod, which is moved with its connections. */
        Arguments withConnections() {
            return new Arguments(outerSessions, true, internetSockets);
        }
    }

    /** Makes the scan for a CRIU with these arguments, on this node. */
    static CriuLimits of(Arguments arguments) {
        return new CriuLimits(Path.of("/proc"), LibC::semaphoreUser, arguments, PATIENCE, SCAN_LIMIT);
    }

    /**
     * Throws if CRIU cannot move one of the ranks. The message names the process, the cause and the remedy.
     *
     * @param roots the root of each rank; one scan of all processes serves those without findings
     */
    void require(Map<Integer, ProcessIdentity> roots, JobUser user) throws CheckpointException {
        Map<Integer, ProcStat> all = all();
        for (Map.Entry<Integer, ProcessIdentity> rank : roots.entrySet()) {
            Found first = found(rank.getValue(), all, user);
            if (first.obstacle().isPresent() || (first.listens() && !arguments.establishedTcp())) {
                requireGone(rank.getKey(), rank.getValue(), user, new Sightings(first));
            }
        }
    }

    private void requireGone(int rank, ProcessIdentity root, JobUser user, Sightings sightings)
            throws CheckpointException {
        long beganNs = System.nanoTime();
        Map<Integer, Long> ranNs = new HashMap<>();
        Polling.until(patience.multipliedBy(STARVED), () -> {
            Map<Integer, ProcStat> all = all();
            sightings.add(found(root, all, user));
            return hasRunEnough(root, all, ranNs)
                    && sightings.scans() >= LEAST_SCANS
                    && System.nanoTime() - beganNs >= patience.toNanos();
        });
        if (sightings.are()) {
            throw new CheckpointException("rank " + rank + " was not stopped: " + sightings.last);
        }
    }

    /**
     * Returns whether a rank has run for some time since its first scan, or needs no processor.
     *
     * @param ranNs run time of each process at its first scan; new ones are added
     */
    private boolean hasRunEnough(ProcessIdentity root, Map<Integer, ProcStat> all, Map<Integer, Long> ranNs) {
        boolean wants = false;
        long sinceNs = 0;
        for (ProcStat process :
                scan(root, all).map(RankScan::tree).orElse(Map.of()).values()) {
            wants |= process.state() == 'R';
            sinceNs += process.processorNs() - ranNs.computeIfAbsent(process.pid(), pid -> process.processorNs());
        }
        return !wants || sinceNs >= patience.toNanos() / TURN;
    }

    /** Some scans of a rank. A finding counts if a quarter of them show it. For one thread. */
    private static final class Sightings {
        /** A finding is reported if at least one scan in this many shows it. */
        private static final int COUNTS_IF_ONE_IN = 4;

        private String last;
        private int with;
        private int without;

        Sightings(Found first) {
            add(first);
        }

        void add(Found found) {
            found.obstacle().ifPresent(text -> last = text);
            with += found.obstacle().isPresent() ? 1 : 0;
            without += found.obstacle().isPresent() ? 0 : 1;
        }

        int scans() {
            return with + without;
        }

        boolean are() {
            return COUNTS_IF_ONE_IN * with >= scans();
        }
    }

    private Found found(ProcessIdentity root, Map<Integer, ProcStat> all, JobUser user) throws CheckpointException {
        Optional<RankScan> scan = scan(root, all);
        if (scan.isEmpty()) {
            return Found.NOTHING;
        }
        ScanDeadline deadline = new ScanDeadline(scanLimit);
        try {
            Optional<String> outside = outerSession(scan.get());
            if (outside.isEmpty()) {
                outside = outerMember(scan.get());
            }
            if (outside.isPresent()) {
                return Found.of(outside.get());
            }
            Found open = descriptor(scan.get(), user, deadline);
            return open.obstacle().isPresent() ? open : new Found(systemV(scan.get(), user, deadline), open.listens());
        } catch (ScanDeadline.PassedException e) {
            throw new CheckpointException(
                    "PID " + root.pid() + " and its descendants were not stopped, because CRIU's ability to move them"
                            + " is unknown: " + e.getMessage() + ". Remedy: find the user of these objects, and have"
                            + " them closed; or start the rank in a network and an IPC namespace of its own",
                    e);
        } catch (IOException | DirectoryIteratorException e) {
            throw new CheckpointException(
                    "PID " + root.pid() + " and its descendants cannot be inspected: " + e
                            + ". Remedy: run the service as root",
                    e);
        }
    }

    private Map<Integer, ProcStat> all() throws CheckpointException {
        Map<Integer, ProcStat> all = new HashMap<>();
        try (DirectoryStream<Path> entries = Files.newDirectoryStream(proc, "[0-9]*")) {
            for (Path entry : entries) {
                ProcessTable.known(entry.resolve("stat").toString()).ifPresent(stat -> all.put(stat.pid(), stat));
            }
        } catch (IOException | DirectoryIteratorException e) {
            throw new CheckpointException(proc + " cannot be read: " + e, e);
        }
        return all;
    }

    private static Optional<RankScan> scan(ProcessIdentity root, Map<Integer, ProcStat> all) {
        ProcStat first = all.get(root.pid());
        if (first == null || first.startTimeTicks() != root.startTimeTicks()) {
            // The migration itself notices that the rank is gone.
            return Optional.empty();
        }
        Map<Integer, ProcStat> tree = new HashMap<>(Map.of(first.pid(), first));
        boolean more = true;
        while (more) {
            more = false;
            for (ProcStat stat : all.values()) {
                if (tree.containsKey(stat.parent()) && tree.put(stat.pid(), stat) == null) {
                    more = true;
                }
            }
        }
        return Optional.of(new RankScan(first, all, tree));
    }

    // ---- sessions ------------------------------------------------------------------------------------------------

    /**
     * Finds a process in a foreign session. CRIU would give it another session with another number and no other
     * process. A session whose leader ended is restored as it was, except for the root's. A session whose leader is
     * outside of the PID namespace has no number there, and CRIU refuses it with any arguments.
     */
    private Optional<String> outerSession(RankScan scan) throws IOException {
        for (ProcStat process : scan.tree().values()) {
            int session = process.session();
            boolean roots = session == scan.root().session();
            ProcStat leader = scan.all().get(session);
            boolean led = leader != null && leader.session() == session;
            if (process.isDead() || scan.tree().containsKey(session)) {
                continue;
            }
            if (roots && arguments.outerSessions() && sessionIsElsewhere(process)) {
                return Optional.of(named(process) + " is in a session whose leader is outside of its PID namespace,"
                        + " which --shell-job does not help with. Remedy: start the rank by setsid(1) in its"
                        + " namespace");
            }
            if (roots ? arguments.outerSessions() : !led) {
                continue;
            }
            return Optional.of(named(process) + " is in session " + session + ", "
                    + (led
                            ? "which " + named(leader) + " leads and which is not the rank's own"
                            : "whose leader is gone or outside of the PID namespace")
                    + ": CRIU would give its copy another session. Remedy: start the rank by setsid(1)"
                    + (roots
                            ? "; if its processes never read their session, as ranks of MPI do not, add"
                                    + " --shell-job to dump_arguments of the checkpointer"
                            : " and have its processes stay in its sessions"));
        }
        return Optional.empty();
    }

    /**
     * Returns whether the session has no number in the process's innermost PID namespace, where getsid(2) would return
     * 0.
     */
    private boolean sessionIsElsewhere(ProcStat process) throws IOException {
        if (process.session() == 0) {
            return true;
        }
        for (String line : lines(proc.resolve(process.pid() + "/status"))) {
            if (line.startsWith("NSsid:")) {
                return line.strip().endsWith("\t0");
            }
        }
        return false;
    }

    /** Finds a process that its parent has left to init, as a daemon. CRIU would leave it behind. */
    private static Optional<String> outerMember(RankScan scan) {
        for (ProcStat process : scan.all().values()) {
            ProcStat leader = scan.tree().get(process.session());
            boolean own = leader != null && leader.session() == leader.pid();
            if (own && !process.isDead() && !scan.tree().containsKey(process.pid())) {
                return Optional.of(named(process) + " belongs to session " + process.session() + " of this rank, but"
                        + " descends from PID " + process.parent() + " and no longer from " + named(scan.root())
                        + ": CRIU would leave it behind. Remedy: end it; or have the rank's root adopt orphans of its"
                        + " descendants (PR_SET_CHILD_SUBREAPER of prctl(2)); or move it as a rank of its own, in"
                        + " a session of its own");
            }
        }
        return Optional.empty();
    }

    // ---- descriptors ---------------------------------------------------------------------------------------------

    /** A rank's descriptor of a socket. */
    private record SocketDescriptor(ProcStat process, Path network, long inode) {}

    private Found descriptor(RankScan scan, JobUser user, ScanDeadline deadline) throws IOException {
        List<SocketDescriptor> sockets = new ArrayList<>();
        for (ProcStat process : scan.tree().values()) {
            Path own = proc.resolve(Integer.toString(process.pid()));
            for (Path descriptor : list(own.resolve("fdinfo"))) {
                deadline.require("the list of descriptors of " + named(process));
                String open = target(own.resolve("fd").resolve(descriptor.getFileName()))
                        .toString();
                List<String> lines = lines(descriptor);
                Optional<String> found = lock(process, open, lines);
                if (found.isEmpty() && open.startsWith("pipe:[")) {
                    found = packetPipe(process, lines);
                }
                if (found.isPresent()) {
                    return Found.of(found.get());
                }
                Matcher socket = SOCKET.matcher(open);
                if (socket.matches()) {
                    sockets.add(new SocketDescriptor(
                            process, target(own.resolve("ns/net")), Long.parseLong(socket.group(1))));
                }
            }
        }
        return socket(sockets, user, deadline);
    }

    /** Reads the tables after all descriptors are known. A socket that is in no table has no such protocol. */
    private Found socket(List<SocketDescriptor> descriptors, JobUser user, ScanDeadline deadline) throws IOException {
        Set<Long> wanted = descriptors.stream().map(SocketDescriptor::inode).collect(Collectors.toUnmodifiableSet());
        Map<Path, InternetSockets> networks = new HashMap<>();
        boolean listens = false;
        for (SocketDescriptor descriptor : descriptors) {
            InternetSockets there = networks.get(descriptor.network());
            if (there == null) {
                there = new InternetSockets(wanted, user.uid());
                read(there, proc.resolve(descriptor.process().pid() + "/net"), deadline);
                networks.put(descriptor.network(), there);
            }
            Optional<InternetSockets.Socket> socket = there.of(descriptor.inode());
            if (socket.isPresent()) {
                listens |= socket.get().listens();
                Optional<String> found = internetSocket(descriptor.process(), socket.get());
                if (found.isEmpty() && !arguments.establishedTcp() && there.hasAccepted(socket.get())) {
                    found = connected(descriptor.process());
                }
                if (found.isPresent()) {
                    return Found.of(found.get());
                }
            }
        }
        return new Found(Optional.empty(), listens);
    }

    private static void read(InternetSockets sockets, Path network, ScanDeadline deadline) throws IOException {
        for (String protocol : InternetSockets.PROTOCOLS) {
            Path table = network.resolve(protocol);
            try (BufferedReader rows = Files.newBufferedReader(table, StandardCharsets.ISO_8859_1)) {
                sockets.read(protocol, rows, deadline);
            } catch (IOException e) {
                // A kernel without the protocol has no such file.
                goneOrThrow(table, e, sockets);
            }
        }
    }

    /**
     * Finds a file lock. The restart would take the lock, and wait for the held original, which has it until the
     * migration is over.
     */
    private static Optional<String> lock(ProcStat process, String open, List<String> lines) {
        return lines.stream()
                .filter(line -> line.startsWith(LOCK))
                .findFirst()
                .map(lock -> named(process) + " holds a lock (" + words(lock) + ") of " + open
                        + ": CRIU writes it only with --file-locks, and then the copy would wait for the held"
                        + " original's"
                        + " lock. Remedy: have the job release it, for example in its suspend hook");
    }

    private static Optional<String> packetPipe(ProcStat process, List<String> lines) {
        boolean packets = lines.stream()
                .filter(line -> line.startsWith(FLAGS))
                .map(line -> line.substring(FLAGS.length()).strip())
                .anyMatch(flags -> flags.matches("[0-7]{1,20}") && (Long.parseLong(flags, OCTAL) & O_DIRECT) != 0);
        return packets
                ? Optional.of(named(process) + " has a pipe that keeps packets apart (O_DIRECT of pipe(2)), which CRIU"
                        + " does not checkpoint. Remedy: have the job use a pipe without that flag, or a pair of Unix"
                        + " sockets")
                : Optional.empty();
    }

    private Optional<String> internetSocket(ProcStat process, InternetSockets.Socket socket) {
        if (!arguments.internetSockets()) {
            return Optional.of(named(process) + " has a socket open (" + socket.shown() + "), and this kernel has no"
                    + " SO_PASSCRED for it, without which a CRIU before " + SOCKETS_SINCE + " fails."
                    + " Remedy: have the job close it, for example in its suspend hook; or use a later CRIU,"
                    + " or a kernel before Linux 6.16");
        }
        if (arguments.establishedTcp() && socket.listens() && socket.waiting()) {
            return Optional.of(
                    named(process) + " has connections that wait to be accepted, which CRIU cannot checkpoint."
                            + " Remedy: have the job accept them, and move it then");
        }
        return !arguments.establishedTcp() && socket.isConnected() ? connected(process) : Optional.empty();
    }

    private static Optional<String> connected(ProcStat process) {
        return Optional.of(named(process) + " has an established TCP connection, which CRIU does not checkpoint"
                + " by default. Remedy: have the job close it, for example in its suspend hook; if"
                + " both ends are in the rank, add --tcp-established to dump_arguments and"
                + " restore_arguments of the checkpointer");
    }

    /** Returns the kind and the mode of a lock, from {@code lock: 1: FLOCK ADVISORY WRITE 359 00:13:11691 0 EOF}. */
    private static String words(String lock) {
        String[] words = lock.substring(LOCK.length()).strip().split("\\s+", -1);
        return words.length > LOCK_MODE ? words[LOCK_KIND] + " " + words[LOCK_MODE] : lock;
    }

    // ---- System V IPC --------------------------------------------------------------------------------------------

    private Optional<String> systemV(RankScan scan, JobUser user, ScanDeadline deadline) throws IOException {
        Path namespace = target(proc.resolve("self/ns/ipc"));
        Map<Integer, ProcStat> sharing = new HashMap<>();
        for (ProcStat process : scan.tree().values()) {
            // A process with its own IPC namespace is moved with the objects in it.
            if (!process.isDead()
                    && target(proc.resolve(process.pid() + "/ns/ipc")).equals(namespace)) {
                sharing.put(process.pid(), process);
            }
        }
        for (ProcStat process : sharing.values()) {
            Optional<String> segment = segment(process, deadline);
            if (segment.isPresent()) {
                return Optional.of(named(process) + " has System V shared memory attached (" + segment.get() + ")"
                        + outsideNamespace());
            }
        }
        Used segments = used(sharing, "shm", "shared memory", "shmid", List.of("cpid", "lpid"), deadline);
        Used queues = used(sharing, "msg", "message queue", "msqid", List.of("lspid", "lrpid"), deadline);
        Used semaphoreSets = usedSemaphores(sharing, user, deadline);
        Optional<String> used = segments.by().or(queues::by).or(semaphoreSets::by);
        return used.isEmpty() && (queues.any() || semaphoreSets.any()) ? waiting(sharing, deadline) : used;
    }

    /**
     * The result of a scan of one of the kernel's tables.
     *
     * @param by why one of a rank's processes counts as a user of an object in it
     * @param any whether it has any row, of any user
     */
    private record Used(Optional<String> by, boolean any) {}

    /**
     * Finds one of these processes that the kernel's table names as the last user of an object.
     *
     * @param id the column that numbers the objects
     * @param users the columns that name their last users
     */
    private Used used(
            Map<Integer, ProcStat> sharing,
            String table,
            String what,
            String id,
            List<String> users,
            ScanDeadline deadline)
            throws IOException {
        return rows(table, deadline, row -> users.stream()
                .map(column -> sharing.get(row.number(column).orElse(0)))
                .filter(Objects::nonNull)
                .findFirst()
                .map(process -> used(process, what, row.number(id).orElse(-1))));
    }

    /**
     * Finds a used semaphore. The table names no last users, so the kernel is queried for each semaphore of the user.
     */
    private Used usedSemaphores(Map<Integer, ProcStat> sharing, JobUser user, ScanDeadline deadline)
            throws IOException {
        return rows("sem", deadline, row -> {
            int set = row.number("semid").orElse(-1);
            boolean users = set >= 0 && (row.has("uid", user.uid()) || row.has("cuid", user.uid()));
            int count = users ? row.number("nsems").orElse(0) : 0;
            for (int one = 0; one < count; one++) {
                deadline.require("the list of user " + Integer.toUnsignedString(user.uid()) + "'s semaphores");
                ProcStat process = sharing.get(semaphores.lastUser(set, one));
                if (process != null) {
                    return Optional.of(used(process, "semaphores", set));
                }
            }
            return Optional.empty();
        });
    }

    /** Inspects one row. Returns a finding, if there is one. */
    @FunctionalInterface
    private interface RowCheck {
        Optional<String> at(SystemVTable.Row row) throws IOException;
    }

    /** Scans a file in {@code /proc/sysvipc} up to the first row with a finding. */
    private Used rows(String table, ScanDeadline deadline, RowCheck scan) throws IOException {
        Path file = proc.resolve("sysvipc").resolve(table);
        boolean any = false;
        try (BufferedReader lines = Files.newBufferedReader(file, StandardCharsets.ISO_8859_1)) {
            SystemVTable rows = new SystemVTable(lines);
            for (SystemVTable.Row row = rows.next(); row != null; row = rows.next()) {
                any = true;
                deadline.require(file);
                Optional<String> found = scan.at(row);
                if (found.isPresent()) {
                    return new Used(found, true);
                }
            }
        } catch (IOException e) {
            // A kernel without System V IPC has no such file.
            return goneOrThrow(file, e, new Used(Optional.empty(), any));
        }
        return new Used(Optional.empty(), any);
    }

    private static String used(ProcStat process, String what, int id) {
        return named(process) + " has used the System V " + what + " " + id + outsideNamespace();
    }

    private static String outsideNamespace() {
        return " of the node's IPC namespace, which stays here: its copy would find none, or a foreign one. Remedy:"
                + " have"
                + " the job release it before; or start the job in an IPC namespace of its own (unshare --ipc), which"
                + " CRIU moves with it";
    }

    /** Finds mapped shared memory by its name in {@code /proc/PID/maps}, which is {@code /SYSV} and its key. */
    private Optional<String> segment(ProcStat process, ScanDeadline deadline) throws IOException {
        Path maps = proc.resolve(process.pid() + "/maps");
        // The file is read line by line, because a process can have 65,530 mappings.
        try (BufferedReader reader = Files.newBufferedReader(maps, StandardCharsets.ISO_8859_1)) {
            for (String line = reader.readLine(); line != null; line = reader.readLine()) {
                deadline.require(maps);
                String path = MappingLine.parse(line).map(MappingLine::path).orElse("");
                if (path.startsWith("/SYSV") && SEGMENT.matcher(path).matches()) {
                    return Optional.of(path.replace(" (deleted)", ""));
                }
            }
            return Optional.empty();
        } catch (IOException e) {
            return goneOrThrow(maps, e, Optional.empty());
        }
    }

    private Optional<String> waiting(Map<Integer, ProcStat> processes, ScanDeadline deadline) throws IOException {
        for (ProcStat process : processes.values()) {
            for (Path task : list(proc.resolve(process.pid() + "/task"))) {
                deadline.require("the list of threads of " + named(process));
                String place = String.join("", lines(task.resolve("wchan")));
                if (IPC_WAITS.stream().anyMatch(place::contains)) {
                    return Optional.of(
                            named(process) + " waits for System V semaphores or messages" + outsideNamespace());
                }
            }
        }
        return Optional.empty();
    }

    // ---- stacks ------------------------------------------------------------------------------------------------

    /**
     * Finds a thread with its stack pointer at a page boundary, by {@code /proc/PID/task/TID/syscall} of proc(5). A
     * running thread shows none.
     */
    static Optional<String> stackAtPageBoundary(ProcessIdentity process) {
        try {
            for (Path task : list(Path.of("/proc", Integer.toString(process.pid()), "task"))) {
                if (stackPointer(task) % PAGE_BYTES == 0) {
                    return Optional.of("thread " + task.getFileName() + " of PID " + process.pid());
                }
            }
        } catch (IOException e) {
            // Other checks notice a process that ended.
            LOG.debug("the threads of PID {} are left out: {}", process.pid(), e.toString());
        }
        return Optional.empty();
    }

    /** Returns the stack pointer of a thread; 1 if it runs, ended, or cannot be read. */
    private static long stackPointer(Path task) {
        try {
            String[] words =
                    String.join(" ", lines(task.resolve("syscall"))).strip().split(" ", -1);
            long pointer = words.length < WORDS_WITH_A_STACK ? 0 : Long.decode(words[words.length - 2]);
            return pointer == 0 ? 1 : pointer;
        } catch (IOException | NumberFormatException e) {
            LOG.debug("the stack of {} is left out: {}", task, e.toString());
            return 1;
        }
    }

    // ---- reading /proc -------------------------------------------------------------------------------------------

    private static String named(ProcStat process) {
        return "PID " + process.pid() + " (" + process.name() + ")";
    }

    /** Returns the target of a link, or its own path if it is gone. */
    private static Path target(Path link) throws IOException {
        try {
            return Files.readSymbolicLink(link);
        } catch (IOException e) {
            return goneOrThrow(link, e, link);
        }
    }

    private static List<Path> list(Path directory) throws IOException {
        List<Path> entries = new ArrayList<>();
        try (DirectoryStream<Path> found = Files.newDirectoryStream(directory)) {
            found.forEach(entries::add);
        } catch (IOException e) {
            return goneOrThrow(directory, e, List.of());
        } catch (DirectoryIteratorException e) {
            return goneOrThrow(directory, e.getCause(), List.of());
        }
        return entries;
    }

    private static List<String> lines(Path file) throws IOException {
        try {
            return Files.readAllLines(file, StandardCharsets.ISO_8859_1);
        } catch (IOException e) {
            return goneOrThrow(file, e, List.of());
        }
    }

    /**
     * Returns the given value if the file is gone, because a process, a thread or a descriptor may end during the scan.
     * Throws if it exists and cannot be read.
     */
    private static <T> T goneOrThrow(Path file, IOException e, T instead) throws IOException {
        if (e instanceof ScanDeadline.PassedException) {
            throw e;
        }
        String why = String.valueOf(e.getMessage());
        // A descriptor may have been opened again under the number of one that was closed during its read.
        if (ProcFiles.meansGone(e)
                || why.contains("No such file or directory")
                || !Files.exists(file, LinkOption.NOFOLLOW_LINKS)) {
            return instead;
        }
        throw e;
    }
}
