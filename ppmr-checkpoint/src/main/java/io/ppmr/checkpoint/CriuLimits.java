package io.ppmr.checkpoint;

import io.ppmr.os.LibC;
import io.ppmr.os.MappingLine;
import io.ppmr.os.ProcStat;
import io.ppmr.os.ProcessIdentity;
import java.io.BufferedReader;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
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
 * Finds in a rank that runs what CRIU cannot move, or what it moves into something else than it was: file locks, System
 * V IPC, sessions that reach out of the rank, processes that have left its tree, some pipes and sockets. It reads
 * {@code /proc} and touches no process. A rank changes while it is looked at, so where something is found it is looked
 * at again and again for a moment, and that counts which is there in a quarter of the looks. So is a rank that takes
 * TCP connections, since one may be there the next moment. Where the node is so busy that the rank does not get the
 * processor, or looks take long, it is looked at longer. What comes up after that, CRIU itself may find.
 *
 * @param proc where proc(5) is mounted
 * @param semaphores tells who has used a semaphore
 * @param arguments what CRIU is told to do, and can
 * @param patience how long a rank is looked at in which something was found
 * @param lookLimit how long one look at one rank may take; a rank that was not looked at by then is refused
 */
record CriuLimits(Path proc, SemaphoreUsers semaphores, Arguments arguments, Duration patience, Duration lookLimit) {
    private static final Logger LOG = LoggerFactory.getLogger(CriuLimits.class);
    private static final Duration PATIENCE = Duration.ofMillis(300);
    /** Enough for tables of a million sockets. */
    private static final Duration LOOK_LIMIT = Duration.ofSeconds(10);
    /** Factor on the time for a rank that waits for the processor. */
    private static final int STARVED = 10;
    /** Minimum number of scans of a rank: on a busy node one scan can use up the whole time. */
    private static final int LEAST_LOOKS = 8;
    /** It has had its turn when its processes together have run for this part of the patience. */
    private static final int TURN = 3;

    /** Until then CRIU fails on sockets that have no SO_PASSCRED; of a later one it is not known. */
    private static final int SOCKETS_SINCE_MAJOR = 4;

    private static final int SOCKETS_SINCE_MINOR = 2;
    private static final String SOCKETS_SINCE = SOCKETS_SINCE_MAJOR + "." + SOCKETS_SINCE_MINOR;

    private static final Pattern SOCKET = Pattern.compile("socket:\\[(\\d{1,18})]");

    private static final String FLAGS = "flags:";
    private static final int OCTAL = 8;
    /** On x86, and on ARM; what the other one's bit means there is of no pipe. */
    private static final long O_DIRECT = 040000 | 0200000;

    private static final String LOCK = "lock:";
    private static final int LOCK_KIND = 1;
    private static final int LOCK_MODE = 3;
    /** The number of the system call, or -1, the stack pointer, and where the program is. */
    private static final int WORDS_WITH_A_STACK = 3;

    private static final int PAGE_BYTES = 4096;
    private static final Pattern SEGMENT = Pattern.compile("/SYSV[0-9a-f]{8} \\(deleted\\)");

    /** The kernel's functions in which a thread waits for a semaphore or a message queue. */
    private static final List<String> IPC_WAITS = List.of("semtimedop", "msgrcv", "msgsnd");

    /** Finds the last process that operated on a semaphore, semctl(2). */
    @FunctionalInterface
    interface SemaphoreUsers {
        /** Returns its PID; 0 if there was none, -1 if that may not be known. */
        int lastUser(int set, int semaphore);
    }

    /**
     * The result of a look at a rank.
     *
     * @param obstacle why CRIU would not move it, and the remedy
     * @param listens whether it takes TCP connections
     */
    private record Found(Optional<String> obstacle, boolean listens) {
        static final Found NOTHING = new Found(Optional.empty(), false);

        static Found of(String obstacle) {
            return new Found(Optional.of(obstacle), false);
        }
    }

    /** The processes of a rank, the root first, among all of the node at one look. */
    private record Look(ProcStat root, Map<Integer, ProcStat> all, Map<Integer, ProcStat> tree) {}

    /**
     * The things that CRIU is told to do, and those that it can.
     *
     * @param outerSessions whether a rank may be in a session of others, for which it gets a new one
     * @param establishedTcp whether it takes TCP connections along
     * @param internetSockets whether it can read what this kernel says of sockets in Internet protocols
     */
    record Arguments(boolean outerSessions, boolean establishedTcp, boolean internetSockets) {
        /**
         * Those of a CRIU on this node.
         *
         * @param version what it says of its version
         * @param dump further arguments of {@code criu dump}
         */
        static Arguments of(String version, List<String> dump) {
            boolean later = CriuCheckpointer.compare(version, SOCKETS_SINCE_MAJOR, SOCKETS_SINCE_MINOR) >= 0;
            return new Arguments(
                    dump.contains("--shell-job") || dump.contains("-j"),
                    dump.contains("--tcp-established"),
                    later || LibC.givesCredentialsOfInternetSockets());
        }

        /** The same for a pod, whose connections go along. */
        Arguments withConnections() {
            return new Arguments(outerSessions, true, internetSockets);
        }
    }

    /** Those of a CRIU with these arguments, on this node. */
    static CriuLimits of(Arguments arguments) {
        return new CriuLimits(Path.of("/proc"), LibC::semaphoreUser, arguments, PATIENCE, LOOK_LIMIT);
    }

    /**
     * Throws, and names the process, the cause and the remedy, if one of the ranks is not one that CRIU moves.
     *
     * @param roots the root of each rank; one look at all processes serves those in which nothing is found
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
            return hasHadItsTurn(root, all, ranNs)
                    && sightings.looks() >= LEAST_LOOKS
                    && System.nanoTime() - beganNs >= patience.toNanos();
        });
        if (sightings.are()) {
            throw new CheckpointException("rank " + rank + " was not stopped: " + sightings.last);
        }
    }

    /**
     * Returns whether a rank has run for a while since it was first looked at, or does not want to.
     *
     * @param ranNs how long each of its processes had run when it was first seen; more are put there
     */
    private boolean hasHadItsTurn(ProcessIdentity root, Map<Integer, ProcStat> all, Map<Integer, Long> ranNs) {
        boolean wants = false;
        long sinceNs = 0;
        for (ProcStat process : look(root, all).map(Look::tree).orElse(Map.of()).values()) {
            wants |= process.state() == 'R';
            sinceNs += process.processorNs() - ranNs.computeIfAbsent(process.pid(), pid -> process.processorNs());
        }
        return !wants || sinceNs >= patience.toNanos() / TURN;
    }

    /** Some looks at a rank; it counts if a quarter of them find something. For one thread. */
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

        int looks() {
            return with + without;
        }

        boolean are() {
            return COUNTS_IF_ONE_IN * with >= looks();
        }
    }

    private Found found(ProcessIdentity root, Map<Integer, ProcStat> all, JobUser user) throws CheckpointException {
        Optional<Look> look = look(root, all);
        if (look.isEmpty()) {
            return Found.NOTHING;
        }
        LookDeadline deadline = new LookDeadline(lookLimit);
        try {
            Optional<String> outside = outerSession(look.get());
            if (outside.isEmpty()) {
                outside = outerMember(look.get());
            }
            if (outside.isPresent()) {
                return Found.of(outside.get());
            }
            Found open = descriptor(look.get(), user, deadline);
            return open.obstacle().isPresent() ? open : new Found(systemV(look.get(), user, deadline), open.listens());
        } catch (LookDeadline.PassedException e) {
            throw new CheckpointException(
                    "PID " + root.pid() + " and its descendants were not stopped, since it is not known whether CRIU"
                            + " can move them: " + e.getMessage() + ". Remedy: find the user that has them, and have"
                            + " them closed; or start the rank in a network and an IPC namespace of its own",
                    e);
        } catch (IOException | DirectoryIteratorException e) {
            throw new CheckpointException(
                    "PID " + root.pid() + " and its descendants cannot be looked at: " + e
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

    private static Optional<Look> look(ProcessIdentity root, Map<Integer, ProcStat> all) {
        ProcStat first = all.get(root.pid());
        if (first == null || first.startTimeTicks() != root.startTimeTicks()) {
            // The migration notices by itself that the rank is gone.
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
        return Optional.of(new Look(first, all, tree));
    }

    // ---- sessions ------------------------------------------------------------------------------------------------

    /**
     * CRIU gives such a process another session, with another number, and no other process in it. A session whose
     * leader has ended is made again as it was, except for that of the root. One whose leader is outside of the PID
     * namespace has no number there, and CRIU refuses it whatever it is told.
     */
    private Optional<String> outerSession(Look look) throws IOException {
        for (ProcStat process : look.tree().values()) {
            int session = process.session();
            boolean roots = session == look.root().session();
            ProcStat leader = look.all().get(session);
            boolean led = leader != null && leader.session() == session;
            if (process.isDead() || look.tree().containsKey(session)) {
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
                            ? "; where its processes never ask for their session, as ranks of MPI do not, put"
                                    + " --shell-job into dump_arguments of the checkpointer"
                            : " and have its processes stay in its sessions"));
        }
        return Optional.empty();
    }

    /** Returns whether the session has no number in the process's innermost PID namespace: getsid(2) would give 0. */
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

    /** One that its parent has left to init, as a daemon does: CRIU would leave it behind. */
    private static Optional<String> outerMember(Look look) {
        for (ProcStat process : look.all().values()) {
            ProcStat leader = look.tree().get(process.session());
            boolean own = leader != null && leader.session() == leader.pid();
            if (own && !process.isDead() && !look.tree().containsKey(process.pid())) {
                return Optional.of(named(process) + " belongs to session " + process.session() + " of this rank, but"
                        + " descends from PID " + process.parent() + " and no more from " + named(look.root())
                        + ": CRIU would leave it behind. Remedy: end it; or have the rank's root adopt what its"
                        + " descendants leave (PR_SET_CHILD_SUBREAPER of prctl(2)); or move it as a rank of its own, in"
                        + " a session of its own");
            }
        }
        return Optional.empty();
    }

    // ---- what is open --------------------------------------------------------------------------------------------

    /** A descriptor of a rank's for a socket. */
    private record SocketDescriptor(ProcStat process, Path network, long inode) {}

    private Found descriptor(Look look, JobUser user, LookDeadline deadline) throws IOException {
        List<SocketDescriptor> sockets = new ArrayList<>();
        for (ProcStat process : look.tree().values()) {
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

    /** The tables are read when all descriptors are known: a socket that is in none of them is of no such protocol. */
    private Found socket(List<SocketDescriptor> descriptors, JobUser user, LookDeadline deadline) throws IOException {
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

    private static void read(InternetSockets sockets, Path network, LookDeadline deadline) throws IOException {
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

    /** The restart would take the lock, and wait for the held original, which has it until the migration is over. */
    private static Optional<String> lock(ProcStat process, String open, List<String> lines) {
        return lines.stream()
                .filter(line -> line.startsWith(LOCK))
                .findFirst()
                .map(lock -> named(process) + " holds a lock (" + words(lock) + ") of " + open
                        + ": CRIU writes it only with --file-locks, and then the copy would wait for it as long as the"
                        + " held original has it. Remedy: have the job give it up, in its suspend hook if need be");
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
                    + " SO_PASSCRED for it, which a CRIU before " + SOCKETS_SINCE + " asks of every socket and fails"
                    + " without. Remedy: have the job close it, in its suspend hook if need be; or use a later CRIU,"
                    + " or a kernel before Linux 6.16");
        }
        if (arguments.establishedTcp() && socket.listens() && socket.waiting()) {
            return Optional.of(
                    named(process) + " has connections waiting that it has not accepted, and CRIU checkpoints"
                            + " no such one. Remedy: have the job accept them, and move it then");
        }
        return !arguments.establishedTcp() && socket.isConnected() ? connected(process) : Optional.empty();
    }

    private static Optional<String> connected(ProcStat process) {
        return Optional.of(named(process) + " has an established TCP connection, which CRIU does not checkpoint"
                + " unless it is told to. Remedy: have the job close it, in its suspend hook if need be; where"
                + " both ends are in the rank, put --tcp-established into dump_arguments and"
                + " restore_arguments of the checkpointer");
    }

    /** The kind and the mode of a lock, out of {@code lock: 1: FLOCK ADVISORY WRITE 359 00:13:11691 0 EOF}. */
    private static String words(String lock) {
        String[] words = lock.substring(LOCK.length()).strip().split("\\s+", -1);
        return words.length > LOCK_MODE ? words[LOCK_KIND] + " " + words[LOCK_MODE] : lock;
    }

    // ---- System V IPC --------------------------------------------------------------------------------------------

    private Optional<String> systemV(Look look, JobUser user, LookDeadline deadline) throws IOException {
        Path namespace = target(proc.resolve("self/ns/ipc"));
        Map<Integer, ProcStat> sharing = new HashMap<>();
        for (ProcStat process : look.tree().values()) {
            // One that has an IPC namespace of its own takes what is in it along.
            if (!process.isDead()
                    && target(proc.resolve(process.pid() + "/ns/ipc")).equals(namespace)) {
                sharing.put(process.pid(), process);
            }
        }
        for (ProcStat process : sharing.values()) {
            Optional<String> segment = segment(process, deadline);
            if (segment.isPresent()) {
                return Optional.of(
                        named(process) + " has System V shared memory attached (" + segment.get() + ")" + outside());
            }
        }
        Used segments = used(sharing, "shm", "shared memory", "shmid", List.of("cpid", "lpid"), deadline);
        Used queues = used(sharing, "msg", "message queue", "msqid", List.of("lspid", "lrpid"), deadline);
        Used semaphoreSets = usedSemaphores(sharing, user, deadline);
        Optional<String> used = segments.by().or(queues::by).or(semaphoreSets::by);
        return used.isEmpty() && (queues.any() || semaphoreSets.any()) ? waiting(sharing, deadline) : used;
    }

    /**
     * The result of a look through one of the kernel's tables.
     *
     * @param by what says that one of a rank's processes has used an object in there
     * @param any whether it has any row, of whichever user's
     */
    private record Used(Optional<String> by, boolean any) {}

    /**
     * Finds one of these processes that the kernel's table names as the last user of something.
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
            LookDeadline deadline)
            throws IOException {
        return rows(table, deadline, row -> users.stream()
                .map(column -> sharing.get(row.number(column).orElse(0)))
                .filter(Objects::nonNull)
                .findFirst()
                .map(process -> used(process, what, row.number(id).orElse(-1))));
    }

    /** The table of semaphores names no last users: the kernel is asked for those of each semaphore of the user's. */
    private Used usedSemaphores(Map<Integer, ProcStat> sharing, JobUser user, LookDeadline deadline)
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

    /** A look at one row, which says what is to be said of it. */
    @FunctionalInterface
    private interface RowLook {
        Optional<String> at(SystemVTable.Row row) throws IOException;
    }

    /** Looks through a file in {@code /proc/sysvipc} up to the first row of which something is to be said. */
    private Used rows(String table, LookDeadline deadline, RowLook look) throws IOException {
        Path file = proc.resolve("sysvipc").resolve(table);
        boolean any = false;
        try (BufferedReader lines = Files.newBufferedReader(file, StandardCharsets.ISO_8859_1)) {
            SystemVTable rows = new SystemVTable(lines);
            for (SystemVTable.Row row = rows.next(); row != null; row = rows.next()) {
                any = true;
                deadline.require(file);
                Optional<String> found = look.at(row);
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
        return named(process) + " has used the System V " + what + " " + id + outside();
    }

    private static String outside() {
        return " of the node's IPC namespace, which stays here: its copy would find none, or another's. Remedy: have"
                + " the job give it up before; or start the job in an IPC namespace of its own (unshare --ipc), which"
                + " CRIU takes along";
    }

    /** The name that shared memory has in {@code /proc/PID/maps}, which is {@code /SYSV} and its key. */
    private Optional<String> segment(ProcStat process, LookDeadline deadline) throws IOException {
        Path maps = proc.resolve(process.pid() + "/maps");
        // Line by line: a process can have 65,530 mappings.
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

    private Optional<String> waiting(Map<Integer, ProcStat> processes, LookDeadline deadline) throws IOException {
        for (ProcStat process : processes.values()) {
            for (Path task : list(proc.resolve(process.pid() + "/task"))) {
                deadline.require("the list of threads of " + named(process));
                String place = String.join("", lines(task.resolve("wchan")));
                if (IPC_WAITS.stream().anyMatch(place::contains)) {
                    return Optional.of(named(process) + " waits for System V semaphores or messages" + outside());
                }
            }
        }
        return Optional.empty();
    }

    // ---- stacks ------------------------------------------------------------------------------------------------

    /**
     * Finds a thread with its stack pointer at a page boundary, by {@code /proc/PID/task/TID/syscall} of proc(5).
     * One that runs shows none.
     */
    static Optional<String> stackAtPageBoundary(ProcessIdentity process) {
        try {
            for (Path task : list(Path.of("/proc", Integer.toString(process.pid()), "task"))) {
                if (stackPointer(task) % PAGE_BYTES == 0) {
                    return Optional.of("thread " + task.getFileName() + " of PID " + process.pid());
                }
            }
        } catch (IOException e) {
            // A process that has ended is missed by others.
            LOG.debug("the threads of PID {} are not looked at: {}", process.pid(), e.toString());
        }
        return Optional.empty();
    }

    /** Returns the stack pointer of a thread; 1 where it runs, has ended, or may not be looked at. */
    private static long stackPointer(Path task) {
        try {
            String[] words =
                    String.join(" ", lines(task.resolve("syscall"))).strip().split(" ", -1);
            long pointer = words.length < WORDS_WITH_A_STACK ? 0 : Long.decode(words[words.length - 2]);
            return pointer == 0 ? 1 : pointer;
        } catch (IOException | NumberFormatException e) {
            LOG.debug("the stack of {} is not looked at: {}", task, e.toString());
            return 1;
        }
    }

    // ---- reading /proc -------------------------------------------------------------------------------------------

    private static String named(ProcStat process) {
        return "PID " + process.pid() + " (" + process.name() + ")";
    }

    /** Returns what a link shows; its own path where that has gone meanwhile. */
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

    /** A process, a thread or a descriptor may end while it is looked at; what is there and cannot be read is told. */
    private static <T> T goneOrThrow(Path file, IOException e, T instead) throws IOException {
        if (e instanceof LookDeadline.PassedException) {
            throw e;
        }
        String why = String.valueOf(e.getMessage());
        // A descriptor may have been opened again under the number of one that was closed while it was read.
        if (e instanceof NoSuchFileException
                || why.contains("No such process")
                || why.contains("No such file or directory")
                || !Files.exists(file, LinkOption.NOFOLLOW_LINKS)) {
            return instead;
        }
        throw e;
    }
}
