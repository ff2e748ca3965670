package io.ppmr.checkpoint;

import io.ppmr.linux.KernelFeatures;
import io.ppmr.linux.KernelFeatures.Feature;
import io.ppmr.linux.ProcFolder;
import io.ppmr.linux.ProcStat;
import io.ppmr.linux.ProcessIdentity;
import io.ppmr.linux.RareLog;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.AccessDeniedException;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.Predicate;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The node's processes, read from {@code /proc} at each call. For any thread. Results may be out of date at once,
 * except for stopped processes. Therefore processes are stopped before conclusions are drawn.
 *
 * <p>A process that has exited and waits for its parent (state Z) counts as gone everywhere. See proc(5),
 * pid_namespaces(7).
 */
public final class ProcessTable {
    private static final Logger LOG = LoggerFactory.getLogger(ProcessTable.class);
    private static final RareLog UNKNOWN = new RareLog(LOG::warn);

    private static final Path PROC = Path.of("/proc");
    private static final int TICKS_A_SECOND = 100;
    /** SIGSTOP in the sets of signals of proc(5), which begin with the lowest bit for signal 1. */
    private static final long STOP_BIT = 1L << 18;
    /** The kernel's function in which stopped threads wait, by its name in proc_pid_wchan(5). */
    private static final String STOPPED_PLACE = "do_signal_stop";

    private static final long MIN_SCAN_NS = 10_000_000;

    private final String bootId;
    private final long ownPidNamespace;
    private final SharedScan<ProcessSnapshot> snapshots = new SharedScan<>(this::scan);
    private final MarkSearch marks = new MarkSearch(this);
    private ProcessSnapshot recent;

    public ProcessTable() {
        try {
            bootId = Files.readString(PROC.resolve("sys/kernel/random/boot_id")).trim();
            ownPidNamespace = ProcStat.pidNamespace("self");
        } catch (IOException e) {
            throw new UncheckedIOException("cannot read the boot id and the own PID namespace; is /proc mounted?", e);
        }
    }

    /** Returns the identity of a living process. Throws, with the PID, if there is none. */
    public ProcessIdentity of(int pid) throws CheckpointException {
        return find(pid)
                .orElseThrow(() -> new CheckpointException("PID " + pid
                        + " is no living process of this node. Remedy: correct the job's list of processes"));
    }

    /** Returns the name of this boot of the node, which distinguishes identities of earlier boots. */
    String bootId() {
        return bootId;
    }

    /**
     * Returns the identity of a living process, if there is one with that PID.
     *
     * @throws UncheckedIOException if there is one that this service may not inspect, because it must not count as
     *     gone
     */
    public Optional<ProcessIdentity> find(int pid) {
        try {
            return identify(pid);
        } catch (AccessDeniedException e) {
            throw new UncheckedIOException(
                    "the namespaces of PID " + pid + " may not be read. Remedy: run as root or as the process's user;"
                            + " if this service is root, a security module of the kernel protects that process",
                    e);
        }
    }

    /** Returns the identity, or empty for a process that this service may not inspect. */
    Optional<ProcessIdentity> findReadable(int pid) {
        try {
            return identify(pid);
        } catch (AccessDeniedException e) {
            return Optional.empty();
        }
    }

    private Optional<ProcessIdentity> identify(int pid) throws AccessDeniedException {
        Optional<ProcStat> stat = stat(pid);
        // A process whose first thread ended lives on in its others.
        if (stat.isEmpty() || (stat.get().isDead() && allThreadsDead(pid))) {
            return Optional.empty();
        }
        try {
            return Optional.of(new ProcessIdentity(
                    bootId,
                    ProcStat.pidNamespace(Integer.toString(pid)),
                    pid,
                    stat.get().startTimeTicks()));
        } catch (AccessDeniedException e) {
            if (stat(pid).map(later -> !later.isDead()).orElse(false)) {
                throw e;
            }
            return Optional.empty();
        } catch (IOException gone) {
            return Optional.empty();
        }
    }

    /** Returns true if that very process still lives. Call it before every signal. */
    public boolean isAlive(ProcessIdentity process) {
        return bootId.equals(process.bootId())
                && find(process.pid()).filter(process::equals).isPresent();
    }

    /** Returns the PID namespace of this service. */
    public long ownPidNamespace() {
        return ownPidNamespace;
    }

    /**
     * Throws, with the process, unless all its user ids (real, effective, saved, filesystem) belong to the user. A
     * process that is gone is left out, because a rank's children come and go.
     */
    public void requireOwner(ProcessIdentity process, JobUser user) throws CheckpointException {
        Optional<String> uids = status(process, "Uid");
        if (uids.isEmpty()) {
            return;
        }
        for (String uid : uids.get().split("\\s+", -1)) {
            if (Integer.parseInt(uid) != user.uid()) {
                throw new CheckpointException("PID " + process.pid() + " belongs to user " + uid
                        + ", not to the job's user " + user.uid()
                        + ". Remedy: correct the job's user or its processes");
            }
        }
    }

    /**
     * Returns the PID in the innermost of the process's PID namespaces. If the kernel does not show it, it is known
     * only for processes in this service's own namespace.
     */
    public int pidInside(ProcessIdentity process) throws CheckpointException {
        return findPidInside(process).orElseThrow(() -> new CheckpointException("PID " + process.pid() + " is gone"));
    }

    /**
     * Returns what {@link #pidInside} returns, or empty if the process is gone. Processes that were found by a scan may
     * end after it.
     */
    public Optional<Integer> findPidInside(ProcessIdentity process) throws CheckpointException {
        Optional<String> pids = status(process, "NSpid");
        if (pids.isPresent()) {
            return Optional.of(innermost(pids.get()));
        }
        if (!isAlive(process)) {
            return Optional.empty();
        }
        if (process.pidNamespace() != ownPidNamespace) {
            throw new CheckpointException("PID " + process.pid() + " lives in another PID namespace than this service,"
                    + " and such a process cannot be moved here: "
                    + KernelFeatures.here().describeMissing(Feature.NSPID)
                    + ". Remedy: run the job, and the service, in the node's own PID namespace");
        }
        return Optional.of(process.pid());
    }

    /** Returns true if the process lives and is the init of its PID namespace. */
    boolean isNamespaceInit(ProcessIdentity process) {
        return status(process, "NSpid").map(pids -> innermost(pids) == 1).orElse(false);
    }

    /** Returns the process and all its living descendants, itself first, parents before children. */
    public List<ProcessIdentity> tree(ProcessIdentity root) {
        return trees(List.of(root));
    }

    /** Returns the processes and all their living descendants, from one scan of all processes. */
    public List<ProcessIdentity> trees(Collection<ProcessIdentity> roots) {
        return snapshot().trees(roots);
    }

    /**
     * Returns all processes as they are now. The scan begins after this call, so its conclusions hold for no earlier
     * time. Callers that wait at the same time share one scan.
     */
    public ProcessSnapshot snapshot() {
        return snapshots.scan();
    }

    /**
     * Returns all processes from a recent scan, which is shared until the next one. However many ranks use it, and
     * however many processes the node has, the cores stay free for the transfer. It proves nothing.
     *
     * @param share the scan takes at most 1/share of one core
     */
    synchronized ProcessSnapshot recentSnapshot(int share) {
        if (recent == null || System.nanoTime() - recent.endNs() >= Math.max(MIN_SCAN_NS, recent.tookNs() * share)) {
            recent = snapshot();
        }
        return recent;
    }

    /**
     * Returns the processes that have a restart's mark. The result is as new as {@link #snapshot}, and shared in the
     * same way.
     */
    List<ProcessIdentity> marked(RestartMark mark) {
        return marks.find(mark);
    }

    /** Returns all living processes of a PID namespace, by PID, without nested namespaces. */
    public List<ProcessIdentity> inNamespace(long pidNamespace) {
        return snapshot().inNamespace(pidNamespace);
    }

    /**
     * Returns the present time in the unit of processes' start times: since boot, in units of 10 ms (USER_HZ is 100).
     */
    static long nowTicks() throws IOException {
        String uptime = Files.readString(PROC.resolve("uptime"));
        return (long) (Double.parseDouble(uptime.substring(0, uptime.indexOf(' '))) * TICKS_A_SECOND);
    }

    /** Returns the kernel's name of a process, or empty if it is gone. */
    public Optional<String> name(ProcessIdentity process) {
        return stat(process.pid())
                .filter(stat -> stat.startTimeTicks() == process.startTimeTicks())
                .map(ProcStat::name);
    }

    /** Returns true if the process leads its session. */
    boolean leadsSession(ProcessIdentity process) {
        return stat(process.pid()).map(stat -> stat.session() == process.pid()).orElse(false);
    }

    /** Returns true if the process lives and all its living threads are stopped by a signal (state T). */
    public boolean isHeld(ProcessIdentity process) {
        // The check of life comes last, because a process that ends in the meantime has no running threads.
        return anyThread(process.pid(), stat -> !stat.isDead() && !stat.isStopped())
                        .isEmpty()
                && isAlive(process);
    }

    /** Returns true if the process lives and none of its threads is stopped. */
    public boolean isRunning(ProcessIdentity process) {
        return anyThread(process.pid(), ProcStat::isStopped).isEmpty() && isAlive(process);
    }

    /**
     * Returns true if a process needs no further SIGSTOP, because one is pending or has stopped some of its threads.
     * The pending signal is checked first, because it stops a thread when it is delivered.
     */
    boolean isStopping(ProcessIdentity process) {
        boolean waits = status(process, "ShdPnd")
                .map(signals -> (Long.parseUnsignedLong(signals, 16) & STOP_BIT) != 0)
                .orElse(false);
        return waits || anyThread(process.pid(), ProcStat::isStopped).isPresent();
    }

    /** Returns true while a tracer has stopped a thread of the process (state t). */
    boolean isTraced(ProcessIdentity process) {
        return anyThread(process.pid(), ProcStat::isTraced).isPresent();
    }

    /** Describes the first process that is not held, or empty if all are held. */
    public Optional<String> whyNotHeld(List<ProcessIdentity> processes) {
        for (ProcessIdentity process : processes) {
            Optional<String> whyNot =
                    whyNotHeld(process, anyThread(process.pid(), stat -> !stat.isDead() && !stat.isStopped()));
            if (whyNot.isPresent()) {
                return whyNot;
            }
        }
        return Optional.empty();
    }

    private Optional<String> whyNotHeld(ProcessIdentity process, Optional<ProcStat> running) {
        if (!isAlive(process)) {
            return Optional.of("PID " + process.pid() + " is gone");
        }
        return running.map(thread -> "thread " + thread.pid() + " of PID " + process.pid() + " is in state "
                + thread.state() + " instead of T");
    }

    /** Returns true if that thread of the process is stopped by a signal. */
    boolean isStopped(ProcessIdentity process, int thread) {
        return known(PROC + "/" + process.pid() + "/task/" + thread + "/stat")
                .map(ProcStat::isStopped)
                .orElse(false);
    }

    /**
     * Finds which of these processes and their living descendants a signal has stopped, from one scan of all processes.
     */
    public Set<ProcessIdentity> stopped(Collection<ProcessIdentity> roots) {
        Set<ProcessIdentity> stopped = new LinkedHashSet<>(trees(roots));
        stopped.removeIf(process -> !isHeld(process));
        return stopped;
    }

    /**
     * Returns true if the process lives and one of its living threads is stopped by a signal. SIGCONT continues all
     * threads of a process at once, so one thread shows whether it was delivered.
     */
    boolean isStopped(ProcessIdentity process) {
        return anyThread(process.pid(), stat -> !stat.isDead())
                        .filter(ProcStat::isStopped)
                        .isPresent()
                && isAlive(process);
    }

    /** Returns the numbers of this many threads of a process, or of all if it has fewer. */
    List<Integer> someThreads(ProcessIdentity process, int most) {
        List<Integer> some = new ArrayList<>();
        threads(process.pid(), (threads, thread) -> Optional.of(Integer.valueOf(thread)), thread -> {
            some.add(thread);
            return some.size() < most;
        });
        return some;
    }

    /** Reads the run time of each thread of a process, in the order of their numbers. */
    List<ThreadTimes> times(ProcessIdentity process) {
        List<ThreadTimes> times = new ArrayList<>();
        threads(process.pid(), ThreadTimes::read, times::add);
        times.sort(Comparator.comparingInt(ThreadTimes::thread));
        return times;
    }

    /**
     * Returns true once every living thread of a stopped process has left its processor permanently. A thread shows the
     * stopped state slightly before that, and counts its last switch only then. The kernel names the place where a
     * thread waits only when it does not run. A kernel without such names cannot show it.
     */
    boolean isOffProcessor(ProcessIdentity process) {
        boolean[] are = {true};
        threads(process.pid(), (threads, thread) -> Optional.of(isOffProcessor(threads, thread)), off -> {
            are[0] &= off;
            return off;
        });
        return are[0];
    }

    /** A thread that ended runs nowhere, and has no place. */
    private static boolean isOffProcessor(ProcFolder threads, String thread) throws IOException {
        return isPlace(placeOf(threads, thread))
                || threads.stat(thread).map(ProcStat::isDead).orElse(true);
    }

    /** Returns an empty place on a kernel without this file. The caller then waits for its limit. */
    private static String placeOf(ProcFolder threads, String thread) throws IOException {
        return threads.beginning(thread + "/wchan").orElse("").strip();
    }

    private static boolean isPlace(String place) {
        return !(place.isEmpty() || place.equals("0"));
    }

    /**
     * Returns both whether processes are held and whether their threads have left their processors. A thread that waits
     * at the kernel's place for stopped ones is both, so most threads are read once.
     */
    StopState standstill(List<ProcessIdentity> processes) {
        boolean[] off = {true};
        for (ProcessIdentity process : processes) {
            List<ProcStat> running = new ArrayList<>();
            threads(process.pid(), ProcessTable::unsettled, thread -> {
                off[0] = false;
                if (!thread.isStopped()) {
                    running.add(thread);
                }
                return running.isEmpty();
            });
            Optional<String> whyNot = whyNotHeld(process, running.stream().findFirst());
            if (whyNot.isPresent()) {
                return new StopState(whyNot, false);
            }
        }
        return new StopState(Optional.empty(), off[0]);
    }

    /** Returns empty for a thread that is stopped and off its processor, and for one that ended. */
    private static Optional<ProcStat> unsettled(ProcFolder threads, String thread) throws IOException {
        String place = placeOf(threads, thread);
        if (place.startsWith(STOPPED_PLACE)) {
            return Optional.empty();
        }
        return threads.stat(thread).filter(stat -> !stat.isDead() && !(stat.isStopped() && isPlace(place)));
    }

    /** Returns the PID of a process's parent, or 0 if it has none here, or is gone. */
    int parent(ProcessIdentity process) {
        return stat(process.pid()).map(ProcStat::parent).orElse(0);
    }

    /**
     * Sorts processes. The first one stays first, a parent precedes its children, and children are in the order of
     * their start.
     */
    List<ProcessIdentity> inOrderOfBirth(List<ProcessIdentity> processes) {
        List<ProcessIdentity> young = new ArrayList<>(processes);
        young.sort(Comparator.comparingLong(ProcessIdentity::startTimeTicks).thenComparingInt(ProcessIdentity::pid));
        Map<Integer, List<ProcessIdentity>> children = new HashMap<>();
        Set<Integer> pids = new LinkedHashSet<>();
        processes.forEach(process -> pids.add(process.pid()));
        ArrayDeque<ProcessIdentity> open = new ArrayDeque<>();
        ProcessIdentity root = processes.get(0);
        open.add(root);
        for (ProcessIdentity process : young) {
            int parent = parent(process);
            if (pids.contains(parent) && !process.equals(root)) {
                children.computeIfAbsent(parent, unknown -> new ArrayList<>()).add(process);
            } else if (!process.equals(root)) {
                open.add(process);
            }
        }
        List<ProcessIdentity> order = new ArrayList<>();
        while (!open.isEmpty()) {
            ProcessIdentity next = open.remove();
            order.add(next);
            open.addAll(children.getOrDefault(next.pid(), List.of()));
        }
        return order;
    }

    private boolean allThreadsDead(int pid) {
        return anyThread(pid, stat -> !stat.isDead()).isEmpty();
    }

    /** Finds a thread of a process, or none if the process ended. */
    private static Optional<ProcStat> anyThread(int pid, Predicate<ProcStat> wanted) {
        List<ProcStat> found = new ArrayList<>();
        threads(pid, (threads, thread) -> threads.stat(thread).filter(wanted), stat -> {
            found.add(stat);
            return false;
        });
        return found.stream().findFirst();
    }

    /** Inspects the threads of a process, or none if the process ended. */
    private static <T> void threads(int pid, FolderScan.EntryInspector<T> look, Predicate<T> sink) {
        try {
            FolderScan.threads(pid, look, sink::test);
        } catch (NoSuchFileException gone) {
            LOG.trace("PID {} ended", pid, gone);
        } catch (IOException | CheckpointException e) {
            // Threads that cannot be inspected must not count as gone.
            throw new IllegalStateException(
                    "the threads of PID " + pid + " cannot be inspected; has this process files left to open? " + e, e);
        }
    }

    private ProcessSnapshot scan() {
        long startNs = System.nanoTime();
        List<ProcStat> all = new ArrayList<>();
        for (int pid : numbers(PROC.toString())) {
            known(PROC + "/" + pid + "/stat").ifPresent(all::add);
        }
        return new ProcessSnapshot(this, all, startNs, System.nanoTime());
    }

    /** Returns the names in a directory that are numbers, or none if the directory's process ended. */
    static List<Integer> numbers(String directory) {
        List<Integer> numbers = new ArrayList<>();
        try (DirectoryStream<Path> entries = Files.newDirectoryStream(Path.of(directory))) {
            for (Path entry : entries) {
                String name = entry.getFileName().toString();
                if (name.charAt(0) >= '1' && name.charAt(0) <= '9') {
                    numbers.add(Integer.valueOf(name));
                }
            }
        } catch (IOException | DirectoryIteratorException e) {
            if (Files.exists(Path.of(directory))) {
                // Processes that cannot be inspected must not count as gone.
                throw new UncheckedIOException(
                        directory + " cannot be listed; has this process files left to open?",
                        e instanceof DirectoryIteratorException wrapped ? wrapped.getCause() : (IOException) e);
            }
            return List.of();
        }
        return numbers;
    }

    /**
     * Reads a process's stat file for a scan, or empty if it is gone, or its line is invalid. Such a line concerns only
     * one process, and the others are scanned all the same.
     */
    static Optional<ProcStat> known(String file) {
        try {
            return ProcStat.read(file);
        } catch (IllegalArgumentException e) {
            UNKNOWN.write("stat", "skipping a process as if it were gone: " + file + ": " + e.getMessage());
            return Optional.empty();
        }
    }

    private static Optional<ProcStat> stat(int pid) {
        return ProcStat.read(PROC + "/" + pid + "/stat");
    }

    /** Returns a line of {@code /proc/PID/status} without its key, or empty if the process is gone. */
    private Optional<String> status(ProcessIdentity process, String field) {
        try {
            return ProcStat.field(PROC.resolve(process.pid() + "/status"), field)
                    .filter(value -> isAlive(process));
        } catch (IOException gone) {
            // The process ended in between, with ENOENT before the open or ESRCH after it.
            return Optional.empty();
        }
    }

    private static int innermost(String pids) {
        return Integer.parseInt(pids.substring(pids.lastIndexOf('\t') + 1).trim());
    }
}
