package io.ppmr.checkpoint.sharing;

import io.ppmr.checkpoint.sharing.KernelObject.ObjectKind;
import io.ppmr.checkpoint.sharing.MappingScan.SharedMapping;
import io.ppmr.linux.Kcmp;
import io.ppmr.linux.Kcmp.Descriptor;
import io.ppmr.linux.ProcFiles;
import io.ppmr.linux.ProcFiles.FileStatus;
import io.ppmr.linux.ProcStat;
import io.ppmr.linux.UnixSocket;
import java.io.File;
import java.io.IOException;
import java.nio.file.AccessDeniedException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/**
 * One scan of a node for all ranks of a job. It reads the objects that the ranks' processes hold, and then which other
 * processes hold the same objects or their other ends. Each process, descriptor and mapping is read once, so the time
 * grows with their number. A deadline and a maximum number of descriptors bound it. It touches no process. For one scan
 * and one thread.
 *
 * <p>Some objects are never noted, because sharing them changes nothing: {@code /dev/null}, {@code zero}, {@code full},
 * {@code random}, {@code urandom}; files on both nodes that are appended to; folders; descriptors that only name a file
 * (O_PATH); mappings of files that are only read.
 */
public final class HolderScan {
    /** Maximum number of descriptors and mappings of the whole node. */
    private static final int MOST_SEEN = 20_000_000;
    /** Maximum number of a job's entries, which are kept until the scan ends, each in some 150 to 300 bytes. */
    private static final int MOST_KEPT = 250_000;
    /** Maximum number of conflicts that are collected. */
    private static final int MOST_CONFLICTS = 1000;

    /** Maximum number of an epoll instance's missing files that are searched elsewhere. */
    private static final int MOST_MISSING = 16;

    private static final int STATUS_BYTES = 1 << 16;
    private static final int MOUNTS_BYTES = 16 << 20;
    private static final int MEMORY_DEVICES = 1;
    /** The minor numbers of /dev/null, zero, full, random, urandom, which have no state of their own. */
    private static final Set<Integer> STATELESS = Set.of(3, 5, 7, 8, 9);

    private static final String PIPE = "pipe:[";
    private static final String SOCKET = "socket:[";
    private static final String ANONYMOUS = "anon_inode:";
    private static final String EPOLL = "anon_inode:[eventpoll]";

    private final Map<Integer, ProcStat> processes;
    private final Map<Integer, Integer> rankOf;
    private final Set<String> externalFiles;
    private final boolean ownMounts;
    private final List<MemberCheck> checks;
    private final long deadlineNs;

    private final Terminals terminals = new Terminals();
    private final Descriptions descriptions = new Descriptions();
    private final List<Hold> holds = new ArrayList<>();
    private final List<Reference> references = new ArrayList<>();
    private final List<MissingTarget> missing = new ArrayList<>();
    private final Map<Long, UnixSocket> sockets = new HashMap<>();
    private final Set<Long> movable = new HashSet<>();
    private final Set<String> sought = new HashSet<>();
    private final Map<String, Set<String>> fifoNames = new HashMap<>();
    /** Memory by name and number, because maps(5) and stat(2) may number a filesystem differently. */
    private final Map<Long, KernelObject> memoryByFile = new HashMap<>();

    private final List<MemoryFile> memoryFiles = new ArrayList<>();
    /** The first process of the job that has each memory mapped, including memory whose sharing is harmless. */
    private final Map<KernelObject, Integer> firstMapped = new HashMap<>();

    private final Set<KernelObject> memory = new HashSet<>();
    private final List<Hold[]> mappedTwice = new ArrayList<>();
    private final Map<Integer, List<Integer>> descriptorsOf = new LinkedHashMap<>();
    private final Map<String, Set<String>> mountsOf = new HashMap<>();
    /** The mount namespace of the process that is being read. */
    private String mountSpace = "";

    private boolean hasTerminals;
    private boolean hasUnnumberedMaster;
    private int seen;
    private int kept;
    private int conflicts;
    private int unseen;

    /** An epoll instance that watches a file which is not at the place where it was added. */
    private record MissingTarget(Holder holder, Descriptor epoll, int target, int occurrence) {}

    /** A descriptor of an in-memory file. */
    private record MemoryFile(Holder holder, int number, String name, long inode) {}

    private HolderScan(
            Map<Integer, ProcStat> processes,
            Map<Integer, Integer> rankOf,
            Set<String> externalFiles,
            boolean ownMounts,
            List<MemberCheck> checks,
            long deadlineNs) {
        this.processes = processes;
        this.rankOf = rankOf;
        this.externalFiles = externalFiles;
        this.ownMounts = ownMounts;
        this.checks = List.copyOf(checks);
        this.deadlineNs = deadlineNs;
    }

    /**
     * Scans the node once.
     *
     * @param processes all processes of the node, by PID
     * @param rankOf rank of each process that belongs to one, by PID
     * @param externalSockets paths of Unix sockets whose connections are handled elsewhere
     * @param ownMounts whether files must be open through mounts of their processes' mount namespaces, or false if the
     *     mounts are handled elsewhere, as those of pods
     * @param checks further checks, which receive each process of a rank and its objects
     * @param deadlineNs end of the scan, on the monotonic clock
     * @throws IOException if a process of a rank cannot be read, or the scan exceeds its time
     */
    public static JobHolds scan(
            Map<Integer, ProcStat> processes,
            Map<Integer, Integer> rankOf,
            List<String> externalSockets,
            boolean ownMounts,
            List<MemberCheck> checks,
            long deadlineNs)
            throws IOException {
        Set<String> files = new HashSet<>();
        for (String path : externalSockets) {
            ProcFiles.status(path).ifPresent(status -> files.add(status.device() + " " + status.inode()));
        }
        return new HolderScan(processes, rankOf, files, ownMounts, checks, deadlineNs).scan();
    }

    private JobHolds scan() throws IOException {
        for (ProcStat process : processes.values()) {
            if (rankOf.containsKey(process.pid())) {
                readMember(process);
            }
        }
        if (hasUnnumberedMaster) {
            takeMastersForTheirTerminals();
        }
        for (Hold[] both : mappedTwice) {
            if (memory.contains(both[0].object())) {
                addConflict(both[0], both[1]);
            }
        }
        memoryFiles.forEach(this::addMemory);
        readSockets();
        requireTargets();
        for (ProcStat process : processes.values()) {
            if (!rankOf.containsKey(process.pid()) && !process.isDead()) {
                readOther(process);
            }
        }
        missing.forEach(target -> references.add(new Reference(
                target.holder(),
                Reference.ReferenceKind.EPOLL,
                "descriptor " + target.epoll().number() + ", which watches " + target.target(),
                new Holder(0, "", Holder.OUTSIDE))));
        return new JobHolds(holds, references, sockets, processes, users(), movable, unseen);
    }

    private Holder holder(int pid) {
        ProcStat stat = processes.get(pid);
        return new Holder(pid, stat == null ? "?" : stat.name(), rankOf.getOrDefault(pid, Holder.OUTSIDE));
    }

    private void requireTime() throws IOException {
        seen++;
        if (seen > MOST_SEEN || System.nanoTime() - deadlineNs > 0) {
            throw new IOException("the processes of this node have too many open files to be scanned in time; " + seen
                    + " were scanned");
        }
    }

    private void requireRoom() throws IOException {
        kept++;
        if (kept > MOST_KEPT) {
            throw new IOException("the job has more than " + MOST_KEPT + " open files and shared mappings in"
                    + " all its processes together");
        }
    }

    /** Notes that two processes hold one object, if they belong to different ranks. */
    private void addConflict(Hold one, Hold other) {
        if (one.holder().rank() != other.holder().rank() && conflicts < MOST_CONFLICTS) {
            conflicts++;
            holds.add(one);
            holds.add(other);
        }
    }

    private static int[] numbers(String directory) {
        String[] names = new File(directory).list();
        return names == null
                ? new int[0]
                : Arrays.stream(names).mapToInt(Integer::parseInt).sorted().toArray();
    }

    // ---- the job -------------------------------------------------------------------------------------------------

    private void readMember(ProcStat process) throws IOException {
        int pid = process.pid();
        Holder holder = holder(pid);
        String own = "/proc/" + pid;
        if (process.isDead() && numbers(own + "/task").length > 1) {
            references.add(
                    new Reference(holder, Reference.ReferenceKind.LEADER, "", new Holder(0, "", Holder.OUTSIDE)));
        }
        for (MemberCheck check : checks) {
            check.process(holder);
        }
        mountSpace = ProcFiles.link(own + "/ns/mnt").orElse("");
        List<Integer> numbers = new ArrayList<>();
        for (int number : numbers(own + "/fd")) {
            requireTime();
            Optional<String> name = ProcFiles.link(own + "/fd/" + number);
            if (name.isPresent()) {
                numbers.add(number);
                readDescriptor(holder, number, name.get());
            }
        }
        descriptorsOf.put(pid, numbers);
        MappingScan.read(pid, new MappingScan.MappingSink() {
            @Override
            public void accept(SharedMapping mapping) throws IOException {
                requireTime();
                readMapping(holder, mapping);
            }

            @Override
            public void special(String range, String name) throws IOException {
                requireTime();
                for (MemberCheck check : checks) {
                    check.mapping(new MemberCheck.Mapped(holder, range, name));
                }
            }
        });
        for (int thread : numbers(own + "/task")) {
            Optional<String> status = ProcFiles.text(own + "/task/" + thread + "/status", STATUS_BYTES);
            if (status.isPresent()) {
                readThread(holder, thread, status.get());
            }
        }
    }

    private void readThread(Holder holder, int thread, String status) throws IOException {
        requireTime();
        tracer(status)
                .ifPresent(tracer -> references.add(
                        new Reference(holder, Reference.ReferenceKind.TRACED, "thread " + thread, holder(tracer))));
        for (MemberCheck check : checks) {
            check.thread(holder, thread, status);
        }
    }

    private void readMapping(Holder holder, SharedMapping mapping) throws IOException {
        KernelObject object = mapping.object();
        Integer first = firstMapped.putIfAbsent(object, holder.pid());
        if (first == null) {
            requireRoom();
        } else if (rankOf.get(first) != holder.rank() && mappedTwice.size() < MOST_CONFLICTS) {
            mappedTwice.add(new Hold[] {mapped(holder(first), mapping), mapped(holder, mapping)});
        }
        if (mapping.matters()) {
            memory.add(object);
        }
        if (mapping.isMemoryOnly()) {
            memoryByFile.put(fileKey(mapping.name(), mapping.inode()), object);
        }
    }

    private static Hold mapped(Holder holder, SharedMapping mapping) {
        return new Hold(holder, "a mapping", mapping.object(), mapping.name());
    }

    /**
     * Returns a key for a file. A name can be long, so its hash is used. The number distinguishes files with equal
     * hashes.
     */
    private static long fileKey(String name, long inode) {
        return inode * 31 + name.hashCode();
    }

    private static Optional<Integer> tracer(String status) {
        return new DescriptorInfo(0, status)
                .value("TracerPid:")
                .map(Integer::parseInt)
                .filter(pid -> pid != 0);
    }

    private void show(MemberCheck.Open open) throws IOException {
        for (MemberCheck check : checks) {
            check.descriptor(open);
        }
    }

    private void readDescriptor(Holder holder, int number, String name) throws IOException {
        String place = "descriptor " + number;
        if (name.startsWith(SOCKET)) {
            show(new MemberCheck.Open(holder, number, name, Optional.empty(), true, ""));
            requireRoom();
            holds.add(new Hold(holder, place, KernelObject.socket(numberIn(name)), name));
            return;
        }
        Optional<DescriptorInfo> read = DescriptorInfo.read(holder.pid(), Integer.toString(number));
        if (read.isEmpty()) {
            return;
        }
        DescriptorInfo info = read.get();
        if (!name.startsWith("/")) {
            show(new MemberCheck.Open(holder, number, name, Optional.empty(), true, info.text()));
        }
        if (name.startsWith(PIPE)) {
            requireRoom();
            sought.add(name);
            addEnds(holder, place, name, info, name);
            return;
        }
        Optional<String> process = info.value("Pid:");
        if (process.isPresent()) {
            addPidfd(holder, place, Integer.parseInt(process.get()));
        }
        if (name.equals(EPOLL)) {
            addTargets(holder, number, info);
        }
        boolean counts = name.startsWith("/") ? countsAsFile(holder, number, name, info) : name.startsWith(ANONYMOUS);
        if (counts) {
            requireRoom();
            Descriptor own = new Descriptor(holder.pid(), number);
            descriptions
                    .add(name, own)
                    .ifPresent(first -> addConflict(opened(first, first, name), opened(own, first, name)));
        }
    }

    private Hold opened(Descriptor descriptor, Descriptor first, String name) {
        return new Hold(
                holder(descriptor.pid()),
                "descriptor " + descriptor.number(),
                new KernelObject(ObjectKind.DESCRIPTION, first.pid() + "/" + first.number()),
                name);
    }

    /** Notes the ends of FIFOs and terminals. Returns true for any other file whose description must not be shared. */
    private boolean countsAsFile(Holder holder, int number, String name, DescriptorInfo info) throws IOException {
        Optional<FileStatus> found = status(holder.pid(), number);
        boolean foreign = found.isPresent() && !info.isPathOnly() && inForeignMount(holder.pid(), name, info);
        show(new MemberCheck.Open(holder, number, name, found, !foreign, info.text()));
        if (found.isEmpty() || info.isPathOnly()) {
            return found.isEmpty() && !info.isPathOnly();
        }
        FileStatus status = found.get();
        String place = "descriptor " + number;
        if (foreign) {
            references.add(new Reference(
                    holder,
                    Reference.ReferenceKind.MOUNT,
                    "descriptor " + number + ", " + EscapedName.text(name),
                    new Holder(0, "", Holder.OUTSIDE)));
        }
        if (status.isFifo()) {
            String id = status.device() + " " + status.inode();
            fifoNames
                    .computeIfAbsent(lastName(name), unknown -> new HashSet<>())
                    .add(id);
            addEnds(holder, place, id, info, name);
            return false;
        }
        if (Terminals.isTerminal(status)) {
            hasTerminals = true;
            Optional<KernelObject> terminal = terminals.of(holder.pid(), status, Optional.of(info));
            hasUnnumberedMaster |= terminal.isEmpty() && Terminals.isMaster(status);
            terminal.ifPresent(object -> holds.add(new Hold(holder, place, object, name)));
            return false;
        }
        if (status.isRegular() && MappingScan.isMemory(name)) {
            memoryFiles.add(new MemoryFile(holder, number, name, status.inode()));
        }
        boolean stateless =
                status.isCharacterDevice() && status.major() == MEMORY_DEVICES && STATELESS.contains(status.minor());
        boolean appended = status.isRegular() && info.appends() && status.links() > 0 && !name.startsWith("/memfd:");
        return !stateless && !appended && !status.isDirectory();
    }

    /** Returns true for a file in a foreign mount. Memory that is no file of a mount is in one of the kernel's own. */
    private boolean inForeignMount(int pid, String name, DescriptorInfo info) throws IOException {
        if (!ownMounts || name.startsWith("/memfd:") || name.startsWith("/dev/zero") || name.startsWith("/SYSV")) {
            return false;
        }
        Optional<String> mount = info.value("mnt_id:");
        if (mount.isEmpty()) {
            return false;
        }
        Set<String> known = mountsOf.get(mountSpace);
        if (known == null) {
            known = new HashSet<>();
            String all =
                    ProcFiles.text("/proc/" + pid + "/mountinfo", MOUNTS_BYTES).orElse("");
            for (String line : all.split("\n", -1)) {
                known.add(line.substring(0, Math.max(0, line.indexOf(' '))));
            }
            mountsOf.put(mountSpace, known);
        }
        return !known.contains(mount.get());
    }

    /**
     * Returns a file's status. A user's own filesystem may refuse it, or have no server. Then the file's type is
     * unknown.
     */
    private static Optional<FileStatus> status(int pid, int number) {
        try {
            return ProcFiles.status("/proc/" + pid + "/fd/" + number);
        } catch (IOException e) {
            return Optional.empty();
        }
    }

    private static long numberIn(String name) {
        return Long.parseLong(name.substring(name.indexOf('[') + 1, name.length() - 1));
    }

    private static String lastName(String path) {
        return path.substring(path.lastIndexOf('/') + 1);
    }

    private void addEnds(Holder holder, String place, String id, DescriptorInfo info, String label) {
        if (info.reads()) {
            holds.add(new Hold(holder, place, new KernelObject(ObjectKind.PIPE_OUTPUT, id), label));
        }
        if (info.writes()) {
            holds.add(new Hold(holder, place, new KernelObject(ObjectKind.PIPE_INPUT, id), label));
        }
    }

    private void addPidfd(Holder holder, String place, int process) {
        // The PID of a process that ended has no meaning.
        if (process >= 0) {
            references.add(new Reference(holder, Reference.ReferenceKind.PIDFD, place, holder(process)));
        }
    }

    private void addTargets(Holder holder, int number, DescriptorInfo info) throws IOException {
        Map<Integer, Integer> occurrences = new HashMap<>();
        Descriptor epoll = new Descriptor(holder.pid(), number);
        for (String target : info.values("tfd:")) {
            int watched = Integer.parseInt(target);
            int occurrence = occurrences.merge(watched, 1, Integer::sum) - 1;
            requireRoom();
            missing.add(new MissingTarget(holder, epoll, watched, occurrence));
        }
    }

    /** Removes the targets of epoll instances that a process of the rank has open. */
    private void requireTargets() throws IOException {
        List<MissingTarget> found = new ArrayList<>();
        for (MissingTarget target : missing) {
            requireTime();
            if (hasTarget(target)) {
                found.add(target);
            }
        }
        missing.removeAll(new HashSet<>(found));
        if (missing.size() > MOST_MISSING) {
            missing.subList(MOST_MISSING, missing.size()).clear();
        }
    }

    private boolean hasTarget(MissingTarget target) throws IOException {
        int pid = target.epoll().pid();
        if (isTarget(target, pid, target.target())) {
            return true;
        }
        for (int number : descriptorsOf.getOrDefault(pid, List.of())) {
            if (isTarget(target, pid, number)) {
                return true;
            }
        }
        for (int other : descriptorsOf.keySet()) {
            if (rankOf.get(other).equals(target.holder().rank()) && isTarget(target, other, target.target())) {
                return true;
            }
        }
        return false;
    }

    private static boolean isTarget(MissingTarget target, int pid, int number) throws IOException {
        return Kcmp.isTarget(target.epoll(), target.target(), target.occurrence(), new Descriptor(pid, number));
    }

    /** On a kernel that does not number masters, treats a rank's master as that of the rank's terminals. */
    private void takeMastersForTheirTerminals() {
        for (Hold hold : List.copyOf(holds)) {
            if (hold.object().kind() == ObjectKind.TERMINAL && hold.holder().isOfJob()) {
                holds.add(new Hold(
                        hold.holder(), hold.place(), hold.object().as(ObjectKind.TERMINAL_MASTER), hold.label()));
            }
        }
    }

    private void readSockets() throws IOException {
        Map<String, Integer> spaces = new HashMap<>();
        Set<String> own = new HashSet<>();
        for (Hold hold : holds) {
            if (hold.object().kind() == ObjectKind.SOCKET) {
                own.add(hold.label());
                ProcFiles.link("/proc/" + hold.holder().pid() + "/ns/net")
                        .ifPresent(space -> spaces.put(space, hold.holder().pid()));
            }
        }
        sought.addAll(own);
        for (int process : spaces.values()) {
            String pid = Integer.toString(process);
            sockets.putAll(UnixSocket.inNamespaceOf(pid, socket -> concerns(socket, own)));
            Set<Long> peers = new HashSet<>();
            sockets.values().forEach(socket -> peers.add(socket.peer()));
            sockets.putAll(UnixSocket.inNamespaceOf(pid, socket -> peers.contains(socket.inode())));
        }
        for (UnixSocket socket : sockets.values()) {
            sought.add(named(socket.inode()));
            if (own.contains(named(socket.inode()))) {
                sought.add(named(socket.peer()));
                socket.waiting().forEach(client -> sought.add(named(client)));
            }
            UnixSocket peer = sockets.get(socket.peer());
            if (peer != null && externalFiles.contains(peer.fileDevice() + " " + peer.fileInode())) {
                movable.add(socket.inode());
            }
        }
    }

    private static boolean concerns(UnixSocket socket, Set<String> own) {
        return own.contains(named(socket.inode()))
                || own.contains(named(socket.peer()))
                || socket.waiting().stream().anyMatch(client -> own.contains(named(client)));
    }

    private static String named(long inode) {
        return SOCKET + inode + "]";
    }

    // ---- the others ----------------------------------------------------------------------------------------------

    private void readOther(ProcStat process) throws IOException {
        int pid = process.pid();
        Holder holder = holder(pid);
        try {
            for (int number : numbers("/proc/" + pid + "/fd")) {
                requireTime();
                Optional<String> name = ProcFiles.link("/proc/" + pid + "/fd/" + number);
                if (name.isPresent()) {
                    readOther(holder, number, name.get());
                }
            }
            if (!memory.isEmpty()) {
                MappingScan.read(pid, mapping -> {
                    requireTime();
                    if (memory.contains(mapping.object())) {
                        addConflict(
                                mapped(holder(firstMapped.get(mapping.object())), mapping), mapped(holder, mapping));
                    }
                });
            }
        } catch (AccessDeniedException e) {
            // This process has more privileges than the service, for example a container's init.
            unseen++;
        }
    }

    private void readOther(Holder holder, int number, String name) throws IOException {
        int pid = holder.pid();
        String place = "descriptor " + number;
        if (name.startsWith(SOCKET)) {
            if (sought.contains(name)) {
                holds.add(new Hold(holder, place, KernelObject.socket(numberIn(name)), name));
            }
        } else if (name.startsWith(PIPE)) {
            if (sought.contains(name)) {
                DescriptorInfo.read(pid, Integer.toString(number))
                        .ifPresent(info -> addEnds(holder, place, name, info, name));
            }
        } else if (name.startsWith("/")) {
            readOtherFile(holder, number, name);
        }
        Descriptor other = new Descriptor(pid, number);
        descriptions
                .find(name, other)
                .ifPresent(first -> addConflict(opened(first, first, name), opened(other, first, name)));
        for (MissingTarget target : List.copyOf(missing)) {
            if (isTarget(target, pid, number)) {
                missing.remove(target);
                references.add(new Reference(
                        target.holder(),
                        Reference.ReferenceKind.EPOLL,
                        "descriptor " + target.epoll().number() + ", which watches " + target.target(),
                        holder));
            }
        }
    }

    private void readOtherFile(Holder holder, int number, String name) throws IOException {
        int pid = holder.pid();
        String place = "descriptor " + number;
        Set<String> fifos = fifoNames.get(lastName(name));
        boolean terminal = hasTerminals && (name.startsWith("/dev/") || name.endsWith("/ptmx"));
        if (fifos == null && !terminal && (memoryByFile.isEmpty() || !MappingScan.isMemory(name))) {
            return;
        }
        Optional<FileStatus> found = status(pid, number);
        if (found.isEmpty()) {
            return;
        }
        FileStatus status = found.get();
        String id = status.device() + " " + status.inode();
        if (fifos != null && status.isFifo() && fifos.contains(id)) {
            DescriptorInfo.read(pid, Integer.toString(number))
                    .ifPresent(info -> addEnds(holder, place, id, info, name));
        }
        if (terminal && Terminals.isTerminal(status)) {
            terminals
                    .of(pid, status, DescriptorInfo.read(pid, Integer.toString(number)))
                    .ifPresent(object -> holds.add(new Hold(holder, place, object, name)));
        }
        if (status.isRegular()) {
            addMemory(new MemoryFile(holder, number, name, status.inode()));
        }
    }

    /** Notes a descriptor of memory that a rank has mapped, because it gives access to that memory. */
    private void addMemory(MemoryFile file) {
        KernelObject mapped = memoryByFile.get(fileKey(file.name(), file.inode()));
        if (mapped != null && memory.contains(mapped)) {
            addConflict(
                    new Hold(holder(firstMapped.get(mapped)), "a mapping", mapped, file.name()),
                    new Hold(file.holder(), "descriptor " + file.number(), mapped, file.name()));
        }
    }

    /** Returns the users of the ranks' processes and of all their ancestors. */
    private Map<Integer, Integer> users() throws IOException {
        Map<Integer, Integer> users = new HashMap<>();
        for (int member : rankOf.keySet()) {
            int pid = member;
            while (processes.containsKey(pid) && !users.containsKey(pid)) {
                Optional<Integer> user = ProcFiles.text("/proc/" + pid + "/status", STATUS_BYTES)
                        .flatMap(text -> new DescriptorInfo(0, text).value("Uid:"))
                        .map(ids -> Integer.parseUnsignedInt(ids.split("\\s+", -1)[0]));
                if (user.isEmpty()) {
                    break;
                }
                users.put(pid, user.get());
                pid = processes.get(pid).parent();
            }
        }
        return users;
    }
}
