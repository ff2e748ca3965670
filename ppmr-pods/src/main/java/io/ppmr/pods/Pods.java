package io.ppmr.pods;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.CommandStarter;
import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.checkpoint.Polling;
import io.ppmr.checkpoint.ProcessTable;
import io.ppmr.checkpoint.SignalSender;
import io.ppmr.checkpoint.WorkDirectories;
import io.ppmr.linux.Accounts;
import io.ppmr.linux.Command;
import io.ppmr.linux.Folders;
import io.ppmr.linux.Ipv4Address;
import io.ppmr.linux.LibC;
import io.ppmr.linux.OutputBudget;
import io.ppmr.linux.ParallelWork;
import io.ppmr.linux.ProcessIdentity;
import io.ppmr.linux.RareLog;
import io.ppmr.migration.RankSurroundings;
import io.ppmr.migration.RequestException;
import io.ppmr.protocol.control.CheckpointInterval;
import io.ppmr.protocol.control.PodAddresses;
import io.ppmr.protocol.control.PodFacts;
import io.ppmr.protocol.control.PodSpecification;
import io.ppmr.transport.auth.PeerAuthenticator;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.FileTime;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.Collectors;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The pods of this node. As root it makes them for ordinary users, shows them, runs commands in them as their users,
 * and ends them. A user only picks what a template grants, and the kernel names the user. The records of pods are in a
 * directory that only root can change, so pods outlive the service. The next service removes pods that a crashed one
 * left half made. It is safe for any thread. Two callers never work on one pod at a time.
 */
public final class Pods {
    private static final Logger LOG = LoggerFactory.getLogger(Pods.class);
    private static final int TERM = 15;
    private static final int KILL = 9;
    /** The time limit for a command to exit after SIGTERM. */
    private static final Duration STOP_GRACE = Duration.ofSeconds(10);
    /** The time limit for killed processes to end. */
    private static final Duration KILL_LIMIT = Duration.ofSeconds(10);
    /** The time limit for a command to start. */
    private static final Duration BEGIN_LIMIT = Duration.ofSeconds(10);
    /** The time limit of a further command with a waiting caller. */
    static final Duration EXECUTE_LIMIT = Duration.ofSeconds(60);

    private static final int MOST_MEMBERS = 4096;
    private static final String UNNAMED = ".new-";
    /** The prefix of a folder that a thread removes: it is not a pod's, and no other thread removes it. */
    private static final String REMOVED = ".gone-";
    /**
     * Minimum age of a folder that counts as left by a crashed service. Filling or removing a folder takes
     * milliseconds.
     */
    private static final Duration LEFT_BEHIND = Duration.ofMinutes(1);

    private static final String LOCK = "lock";
    private static final List<String> ENVIRONMENT =
            List.of("PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/tmp", "TMPDIR=/tmp", "LANG=C.UTF-8");
    private static final String BEGUN = "ppmr-pod";
    private static final String NOT_BEGUN = "ppmr-pod!";

    private final Map<String, PodTemplate> templates;
    private final PodRuntime runtime;
    private final Path podInit;
    private final PodMoves moves;
    private final ProcessTable processes = new ProcessTable();
    private final SignalSender signals = new SignalSender(processes);
    private final PodEnds ends = new PodEnds(processes);
    private final RareLog log = new RareLog(LOG::warn);
    /** The locks of the pods that callers of this service work on, by id. Guarded by this. */
    private final Map<String, FileChannel> busy = new HashMap<>();

    private volatile Runnable changed = () -> LOG.debug("a pod was started or removed");

    /**
     * The user of a request.
     *
     * @param user its name or number, as the kernel reports it
     * @param uid the user's number
     * @param root whether it is root, which may act for every user
     * @param controls whether the user may control the service, and so see and end the pods of every user
     */
    public record PodUser(String user, int uid, boolean root, boolean controls) {}

    /**
     * The result of a further command.
     *
     * @param exitCode its exit status, or 1 if it could not start
     * @param output the beginning of what it printed
     * @param cut whether it printed more than that
     */
    public record Executed(int exitCode, String output, boolean cut) {}

    /**
     * Creates the pods of a node. Reads nothing before {@link #prepare}.
     *
     * @param templates what root grants, by name
     * @param settings of all pods
     * @param programs the native helpers
     * @param environment the environment of the service, which names the starter of programs
     * @param key the shared key of the nodes
     */
    public Pods(
            Map<String, PodTemplate> templates,
            PodSettings settings,
            NativePrograms programs,
            Map<String, String> environment,
            PeerAuthenticator key) {
        this.templates = Map.copyOf(templates);
        this.runtime = new PodRuntime(
                settings, programs.of("ppmr-pod-net"), programs.of("ppmr-pod-enter"), CommandStarter.of(environment));
        this.podInit = programs.of("ppmr-pod-init");
        this.moves = new PodMoves(this, runtime, podInit, key);
    }

    /** Returns the port by which migrations move these pods. */
    public RankSurroundings keeper() {
        return moves;
    }

    /** Returns true if users can have pods here. */
    public boolean offered() {
        return !templates.isEmpty();
    }

    /** Creates the folder if it is missing, and removes pods that an earlier service left half made. */
    public void prepare() throws IOException {
        if (!offered()) {
            return;
        }
        if (!LibC.isRoot()) {
            throw new IOException("pods are made by root, and this service runs as another user. Remedy: run it as"
                    + " root, or take [pods] out of its configuration");
        }
        Path directory = runtime.settings().directory();
        Folders.create(directory, Folders.PRIVATE);
        Files.setPosixFilePermissions(directory, PosixFilePermissions.fromString("rwx------"));
        Optional<WorkDirectories.Changeable> changeable = WorkDirectories.changeable(directory);
        if (changeable.isPresent()) {
            throw new IOException("directory of [pod_runtime], " + directory + ": "
                    + changeable.get().directory() + " " + changeable.get().reason()
                    + ", who could lead the service's files elsewhere. Remedy: name another directory");
        }
        sweep();
        for (PodRecord pod : running()) {
            if (takeOrWarn(pod)) {
                try {
                    runtime.adoptNetwork(folderOf(pod), pod.init(), processes);
                } finally {
                    release(pod.id());
                }
            }
            takeAwayWhenItEnds(pod);
        }
        moves.resume();
    }

    // ---- making one --------------------------------------------------------------------------------------------

    private static void requireMember(PodSpecification pod) throws RequestException {
        if (pod.members() < 0 || pod.members() > MOST_MEMBERS) {
            throw new RequestException("a job over several nodes has 1 to " + MOST_MEMBERS + " pods (--members)");
        }
        Optional<CheckpointInterval> interval = CheckpointInterval.parse(pod.checkpointEvery());
        if (interval.isEmpty()) {
            throw new RequestException("the interval of checkpoints is auto, or a time such as 90s, 10m, 2h or 1d, of"
                    + " 100 days at most: write it so (--checkpoint-every)");
        }
        if (interval.get().isRegular() && pod.members() == 0) {
            throw new RequestException("only a job over several nodes is checkpointed regularly. Remedy: name the"
                    + " number of its pods (--members), or leave --checkpoint-every out");
        }
    }

    /** All pods of a job over several nodes are ordered alike, since the job is checkpointed as one. */
    private void requireSameJob(PodSpecification pod, int uid) throws IOException, RequestException {
        for (PodRecord other : running()) {
            PodSpecification known = other.specification();
            if (other.uid() == uid
                    && known.job().equals(pod.job())
                    && (known.members() != pod.members()
                            || !known.checkpointEvery().equals(pod.checkpointEvery()))) {
                throw new RequestException("pod " + known.name() + " of the job " + pod.job()
                        + " was run with other values of --members and --checkpoint-every ("
                        + known.members() + ", '" + known.checkpointEvery() + "'). Remedy: give all pods of a job the"
                        + " same ones");
            }
        }
    }

    /** Makes a pod and starts its command. Removes the pod if that fails. */
    public PodStatus run(PodUser caller, PodOrder order) throws IOException, RequestException {
        if (!PodOrder.isName(order.name())) {
            throw new RequestException("a pod's name has up to 32 small letters, digits and hyphens, none of these at"
                    + " its ends: name it so");
        }
        if (!PodOrder.isName(order.specification().job())) {
            throw new RequestException("a job of pods has a name as a pod has, of up to 32 small letters, digits and"
                    + " hyphens, none of these at its ends: name it so");
        }
        requireMember(order.specification());
        order.requireCommand();
        Accounts.User owner = ownerOf(caller, order);
        requireSameJob(order.specification(), owner.uid());
        PodTemplate template = templateOf(order, owner.uid());
        Optional<String> none = runtime.whyNoBridge(template.network().bridge());
        if (none.isPresent()) {
            throw new RequestException(none.get() + ", which [pods." + template.name()
                    + "] names. Remedy: make it (ip link add), or correct the configuration");
        }
        sweep();
        PodRecord planned = reserve(order, owner, template);
        PodRecord made;
        try {
            made = make(folderOf(planned), planned, template, order);
        } catch (IOException | RequestException | RuntimeException e) {
            undo(planned, e);
            throw e;
        } finally {
            release(planned.id());
        }
        takeAwayWhenItEnds(made);
        LOG.info(
                "pod {} of template {} runs at {}, its init is PID {}; user {} has asked for it",
                made.fullName(),
                made.specification().template(),
                made.address(),
                made.init().pid(),
                caller.user());
        return statusOf(made).orElseGet(() -> PodStatus.ended(made));
    }

    private static Accounts.User ownerOf(PodUser caller, PodOrder order) throws IOException, RequestException {
        String named = order.user();
        if (named != null && !caller.root() && !named.equals(caller.user())) {
            throw new RequestException("only root may run a pod for another user: leave --user out");
        }
        Optional<Accounts.User> found = named != null && !named.matches("\\d{1,9}")
                ? Accounts.user(named)
                : Accounts.user(named == null ? caller.uid() : Integer.parseInt(named));
        Accounts.User owner =
                found.orElseThrow(() -> new RequestException("user " + (named == null ? caller.user() : named)
                        + " is not in this node's user database, so its group" + " is not known: add the user there"));
        if (owner.uid() == 0) {
            throw new RequestException("a pod is an ordinary user's, never root's: name one with --user");
        }
        return owner;
    }

    private PodTemplate templateOf(PodOrder order, int uid) throws RequestException {
        List<String> granted = templates.values().stream()
                .filter(template -> template.grants(uid))
                .map(PodTemplate::name)
                .sorted()
                .toList();
        if (granted.isEmpty()) {
            throw new RequestException("no template grants addresses to user " + Integer.toUnsignedString(uid)
                    + ": the operator names the user in shares of a [pods.NAME] of this node's configuration");
        }
        String named = order.specification().template();
        String wanted = named == null && granted.size() == 1 ? granted.get(0) : named;
        if (wanted == null || !granted.contains(wanted)) {
            throw new RequestException((wanted == null ? "there are several templates" : "no such template is yours")
                    + ": name one with --template, of " + String.join(", ", granted));
        }
        return templates.get(wanted);
    }

    /** Records and locks a new pod, with an address that no other pod has. */
    private synchronized PodRecord reserve(PodOrder order, Accounts.User owner, PodTemplate template)
            throws IOException, RequestException {
        List<PodRecord> others = records();
        Set<String> taken = others.stream().map(PodRecord::address).collect(Collectors.toSet());
        Ipv4Address address = addressFor(order, owner.uid(), template, taken);
        PodRecord pod = new PodRecord(
                order.specification().granted(template.name(), order.environmentOver(ENVIRONMENT)),
                owner.uid(),
                owner.gid(),
                new PodAddresses(address.toString(), template.address6Of(address), template.macOf(address)),
                template.network().bridge(),
                "ppmr" + address.bytes("%02x", ""),
                template.mounts().all(),
                System.currentTimeMillis(),
                null,
                false,
                0,
                null);
        note(pod);
        return pod;
    }

    /** Records and locks a pod that is about to be made or to arrive. */
    synchronized void note(PodRecord pod) throws IOException, RequestException {
        if (busy.containsKey(pod.id()) || Files.exists(folderOf(pod))) {
            throw new RequestException("there is a pod " + pod.fullName() + " already: stop it, or take another name");
        }
        // The folder gets its name last: one without a record would be removed.
        Path folder = Files.createTempDirectory(runtime.settings().directory(), UNNAMED);
        boolean noted = false;
        try {
            pod.write(folder);
            FileChannel lock = lock(folder).orElseThrow(() -> new IOException("the lock of a new pod is taken"));
            busy.put(pod.id(), lock);
            Files.move(folder, folderOf(pod));
            noted = true;
        } finally {
            if (!noted) {
                release(pod.id());
                WorkDirectories.removeOrWarn(folder);
            }
        }
    }

    /** Locks a pod's folder. Returns empty if another service locked it. */
    private static Optional<FileChannel> lock(Path folder) throws IOException {
        FileChannel channel =
                FileChannel.open(folder.resolve(LOCK), StandardOpenOption.CREATE, StandardOpenOption.WRITE);
        boolean taken = false;
        try {
            taken = channel.tryLock() != null;
        } finally {
            if (!taken) {
                channel.close();
            }
        }
        return taken ? Optional.of(channel) : Optional.empty();
    }

    /** Locks a pod for this caller. Returns false if another caller locked it, here or in another service. */
    synchronized boolean take(PodRecord pod) throws IOException {
        if (busy.containsKey(pod.id())) {
            return false;
        }
        Optional<FileChannel> lock = lock(folderOf(pod));
        lock.ifPresent(channel -> busy.put(pod.id(), channel));
        return lock.isPresent();
    }

    private static Ipv4Address addressFor(PodOrder order, int uid, PodTemplate template, Set<String> taken)
            throws RequestException {
        if (order.address() != null) {
            Ipv4Address wanted = Ipv4Address.parse(order.address())
                    .filter(address -> template.grants(uid, address))
                    .orElseThrow(() -> new RequestException(
                            "that address is none of yours: leave --address out, or name one that [pods."
                                    + template.name() + "] grants you"));
            if (taken.contains(wanted.toString())) {
                throw new RequestException("another pod has " + wanted + ": leave --address out, or stop that pod");
            }
            return wanted;
        }
        for (PodTemplate.Share share : template.shares()) {
            for (Ipv4Address one = share.first(); share.uid() == uid && share.has(one); one = one.next()) {
                if (!taken.contains(one.toString())) {
                    return one;
                }
            }
        }
        throw new RequestException(
                "pods have all addresses that [pods." + template.name() + "] grants you: stop one of them");
    }

    private PodRecord make(Path folder, PodRecord planned, PodTemplate template, PodOrder order)
            throws IOException, RequestException {
        new PodBundle(folder, podInit)
                .write(planned, template, groupsOf(planned), order.initWords(false), runtime.cgroupOf(planned));
        try {
            runtime.makeNetwork(folder, planned, template);
            PodRecord connected = planned.into(PodRuntime.number(PodRuntime.networkFile(folder)));
            ProcessIdentity init = processes.of(runtime.create(folder, connected));
            if (init.pidNamespace() == processes.ownPidNamespace()) {
                throw new IOException("the runtime has made pod " + planned.fullName() + " without namespaces");
            }
            PodRecord made = connected.with(init, false);
            made.write(folder);
            runtime.setVethUp(made);
            runtime.start(folder, made);
            requireBegun(made);
            PodSeccomp.require(processes, init);
            PodRecord begun = made.with(init, true);
            begun.write(folder);
            return begun;
        } catch (CheckpointException e) {
            throw new IOException("pod " + planned.fullName() + " has not become ready: " + e.getMessage(), e);
        }
    }

    private static Set<Integer> groupsOf(PodRecord pod) throws IOException {
        return Accounts.groupsOf(pod.uid()).orElse(Set.of());
    }

    /** Waits until the command started. If the init is gone, the command started and ended. */
    private void requireBegun(PodRecord pod) throws IOException, RequestException {
        boolean begun = Polling.until(BEGIN_LIMIT, () -> {
            String name = processes.name(pod.init()).orElse(BEGUN);
            boolean over = name.equals(BEGUN) || !processes.isAlive(pod.init());
            if (!over && name.startsWith(NOT_BEGUN)) {
                throw new RequestException(whyNotBegun(pod, name.substring(NOT_BEGUN.length())));
            }
            return over;
        });
        if (!begun) {
            throw new IOException("the command of pod " + pod.fullName() + " has not begun within "
                    + BEGIN_LIMIT.toSeconds() + " s: does a filesystem that it needs not answer?");
        }
    }

    /** Describes a letter and an errno, which the user could have forged, in words. */
    private static String whyNotBegun(PodRecord pod, String failure) {
        String what =
                switch (failure.isEmpty() ? ' ' : failure.charAt(0)) {
                    case 'd' -> "the directory";
                    case 'i' -> "the input";
                    case 'o' -> "the output";
                    case 'e' -> "the error output";
                    default -> "the command";
                };
        String why = failure.matches("[a-z]\\d{1,4}")
                ? LibC.CALLS.strerror(Integer.parseInt(failure.substring(1)))
                : "for a reason that is not known";
        return "the command of pod " + pod.fullName() + " cannot begin: " + what + ": " + why
                + ". Remedy: name what is there in the pod, and what its user may use";
    }

    // ---- those that are there ----------------------------------------------------------------------------------

    /** Returns the template of that name, if there is one. */
    Optional<PodTemplate> template(String name) {
        return Optional.ofNullable(templates.get(name));
    }

    /** Returns the template that grants an address to any user, if there is one. */
    Optional<PodTemplate> granting(Ipv4Address address) {
        return templates.values().stream()
                .filter(template -> template.shares().stream().anyMatch(share -> share.has(address)))
                .findFirst();
    }

    /** Lists the pods that run and can be moved. */
    public synchronized List<PodRecord> running() throws IOException {
        return offered()
                ? records().stream()
                        .filter(pod -> !pod.arrives() && isRunning(pod))
                        .toList()
                : List.of();
    }

    /** Lists the pods that migrations bring to this node. */
    synchronized List<PodRecord> arriving() throws IOException {
        return offered() ? records().stream().filter(PodRecord::arrives).toList() : List.of();
    }

    /** Lists the pods of a migration. */
    synchronized List<PodRecord> moving(String move) throws IOException {
        return offered() ? records().stream().filter(pod -> pod.movesBy(move)).toList() : List.of();
    }

    /** Describes a pod to the node to which it moves. Returns empty if its template is gone. */
    public Optional<PodFacts> facts(PodRecord pod) {
        return template(pod.specification().template())
                .map(template -> new PodFacts(
                        pod.specification(),
                        pod.uid(),
                        pod.gid(),
                        pod.addresses(),
                        template.network().prefix(),
                        template.network().mtu(),
                        pod.mounts(),
                        pod.startedAtMs(),
                        true));
    }

    /** Returns the name of the checkpointer that moves a pod, or empty if the pod cannot be moved. */
    public Optional<String> checkpointerOf(PodRecord pod) {
        return template(pod.specification().template()).flatMap(PodTemplate::checkpointer);
    }

    /** Lists the caller's pods, or all pods if the caller controls the service. */
    public List<PodStatus> list(PodUser caller) throws IOException {
        if (!offered()) {
            return List.of();
        }
        sweep();
        List<PodRecord> records;
        synchronized (this) {
            records = records();
        }
        return records.stream()
                .filter(pod -> caller.controls() || pod.uid() == caller.uid())
                .flatMap(pod -> statusOf(pod).stream())
                .sorted(Comparator.comparing(PodStatus::name))
                .toList();
    }

    /** Shows one pod. */
    public PodStatus show(PodUser caller, String name) throws IOException, RequestException {
        return list(caller).stream()
                .filter(pod -> isMeant(caller, pod.name(), name))
                .findFirst()
                .orElseThrow(() -> unknown(name));
    }

    private static boolean isMeant(PodUser caller, String fullName, String name) {
        return fullName.equals(name) || fullName.equals(Integer.toUnsignedString(caller.uid()) + "/" + name);
    }

    private static RequestException unknown(String name) {
        String shown = name == null ? "" : name.substring(0, Math.min(name.length(), 64));
        return new RequestException("no pod '" + shown + "' on this node; list your pods with: ppmr pod list");
    }

    /** Returns true if its command began and its init lives. Its processes are not counted, so it is fast. */
    private boolean isRunning(PodRecord pod) {
        return pod.begun() && processes.isAlive(pod.init());
    }

    private Optional<PodStatus> statusOf(PodRecord pod) {
        return isRunning(pod)
                ? Optional.of(PodStatus.running(
                        pod,
                        template(pod.specification().template())
                                .map(known -> known.network().prefix())
                                .orElse(0),
                        processes.inNamespace(pod.init().pidNamespace()).size()))
                : Optional.empty();
    }

    /**
     * Runs a further command in a pod, as the pod's user and without privileges. Only its user and root may do so.
     *
     * @param detached whether the command continues as a child of the pod's init; otherwise its output is returned
     *     within {@link #EXECUTE_LIMIT}
     * @param output the budget of its output, open until the caller drops the answer
     */
    public Executed execute(PodUser caller, PodOrder order, boolean detached, OutputBudget.BudgetShare output)
            throws IOException, RequestException {
        order.requireCommand();
        PodRecord pod = find(caller, order.name());
        if (pod.uid() != caller.uid() && !caller.root()) {
            throw new RequestException("only its user and root may run commands in pod " + pod.fullName()
                    + ": a user who controls the service may end it");
        }
        requireStill(pod);
        List<String> environment = order.environmentOver(pod.specification().environment());
        List<String> words =
                detached ? order.initWords(true) : order.specification().command();
        Command.CommandResult result = runtime.knows(folderOf(pod), pod)
                ? executeByRuntime(pod, environment, words, output)
                : enter(pod, environment, words, output);
        return new Executed(result.exitCode(), result.output(), output.isTruncated());
    }

    private Command.CommandResult enter(
            PodRecord pod, List<String> environment, List<String> words, OutputBudget.BudgetShare output)
            throws IOException {
        Path variables = Files.createTempFile(folderOf(pod), "exec-", ".environment");
        try {
            Files.writeString(variables, String.join("\0", environment) + '\0');
            return runtime.enter(pod, groupsOf(pod), variables, words, EXECUTE_LIMIT, output);
        } finally {
            Files.deleteIfExists(variables);
        }
    }

    private Command.CommandResult executeByRuntime(
            PodRecord pod, List<String> environment, List<String> words, OutputBudget.BudgetShare output)
            throws IOException {
        Path folder = folderOf(pod);
        Path process = new PodBundle(folder, podInit).writeProcess(pod, groupsOf(pod), environment, words);
        try {
            return runtime.execute(folder, pod, process, EXECUTE_LIMIT, output);
        } finally {
            Files.deleteIfExists(process);
        }
    }

    /** Ends and removes a pod: its command gets SIGTERM, and SIGKILL ends all processes after the time limit. */
    public PodStatus stop(PodUser caller, String name) throws IOException, RequestException {
        PodRecord pod = find(caller, name);
        requireStill(pod);
        if (!take(pod)) {
            throw new RequestException("pod " + pod.fullName() + " is being made or ended: try again later");
        }
        try {
            // A migration may have taken it since the first look.
            requireStill(PodRecord.read(folderOf(pod)).orElseThrow(() -> unknown(name)));
            signals.send(TERM, pod.init());
            Polling.until(STOP_GRACE, () -> !processes.isAlive(pod.init()));
            remove(folderOf(pod), pod);
            LOG.info("pod {} was ended; user {} has asked for it", pod.fullName(), caller.user());
            return PodStatus.ended(pod);
        } catch (CheckpointException e) {
            throw new IOException("pod " + pod.fullName() + " cannot be signalled to end: " + e.getMessage(), e);
        } finally {
            release(pod.id());
        }
    }

    /**
     * Ends all pods of a job over several nodes at once, with their networks. Pods that arrive or leave are left to
     * their migration.
     *
     * @return true if nothing of the job is left here
     */
    boolean endJob(int uid, String job) throws IOException {
        List<PodRecord> all;
        synchronized (this) {
            all = offered()
                    ? records().stream()
                            .filter(pod -> pod.uid() == uid
                                    && pod.specification().members() > 0
                                    && pod.specification().job().equals(job))
                            .toList()
                    : List.of();
        }
        AtomicBoolean isLeft = new AtomicBoolean();
        ParallelWork.forEach("ppmr-pod-end", all, pod -> {
            if (!endMember(pod)) {
                isLeft.set(true);
            }
        });
        return !isLeft.get();
    }

    private boolean endMember(PodRecord seen) throws IOException {
        if (!take(seen)) {
            return false;
        }
        try {
            Optional<PodRecord> now = PodRecord.read(folderOf(seen));
            if (now.isEmpty()) {
                return true;
            }
            if (now.get().moves()) {
                return false;
            }
            remove(folderOf(seen), now.get());
            LOG.info("pod {} was ended: its job goes back to a set", seen.fullName());
            return true;
        } finally {
            release(seen.id());
        }
    }

    private static void requireStill(PodRecord pod) throws RequestException {
        if (pod.moves()) {
            throw new RequestException("pod " + pod.fullName() + " is being moved by migration "
                    + pod.move().migration()
                    + ": wait for its end, or cancel it");
        }
    }

    private PodRecord find(PodUser caller, String name) throws IOException, RequestException {
        if (offered()) {
            synchronized (this) {
                for (PodRecord pod : records()) {
                    if ((caller.controls() || pod.uid() == caller.uid())
                            && isMeant(caller, pod.fullName(), name)
                            && isRunning(pod)) {
                        return pod;
                    }
                }
            }
        }
        throw unknown(name);
    }

    // ---- taking them away --------------------------------------------------------------------------------------

    /** Removes ended pods, and pods that a crashed service left half made. Does not wait for locked ones. */
    private void sweep() {
        List<PodRecord> ended = new ArrayList<>();
        synchronized (this) {
            for (PodRecord pod : recordsOrWarn()) {
                // Its migration removes an arriving pod.
                if (!pod.arrives() && !isRunning(pod) && takeOrWarn(pod)) {
                    ended.add(pod);
                }
            }
        }
        ended.forEach(this::removeOrWarn);
    }

    /** Removes a pod as soon as it ends: its network answers for its addresses until then. */
    void takeAwayWhenItEnds(PodRecord pod) {
        changed.run();
        ends.watch(pod.init(), () -> takeAwayIfEnded(pod.id()));
    }

    /** Removes a pod that ended, unless a migration removes it. */
    void takeAwayIfEnded(String id) {
        PodRecord ended;
        synchronized (this) {
            ended = recordsOrWarn().stream()
                    .filter(pod -> pod.id().equals(id) && !pod.moves())
                    .filter(pod -> !isRunning(pod) && takeOrWarn(pod))
                    .findFirst()
                    .orElse(null);
        }
        if (ended != null) {
            removeOrWarn(ended);
        }
    }

    private void removeOrWarn(PodRecord ended) {
        try {
            remove(folderOf(ended), ended);
            LOG.info("pod {} ended and was removed", ended.fullName());
        } catch (IOException e) {
            log.write(ended.id(), "the rest of pod " + ended.fullName() + " stays behind: " + e.getMessage());
        } finally {
            release(ended.id());
        }
    }

    /** Removes a pod that was moved away, unless another thread removes it. */
    void takeAway(PodRecord pod) throws IOException {
        if (take(pod)) {
            try {
                remove(folderOf(pod), pod);
                LOG.info("pod {} has moved away: nothing of it is left here", pod.fullName());
            } finally {
                release(pod.id());
            }
        }
    }

    private boolean takeOrWarn(PodRecord pod) {
        try {
            return take(pod);
        } catch (IOException e) {
            log.write(pod.id(), "pod " + pod.fullName() + " cannot be inspected: " + e.getMessage());
            return false;
        }
    }

    private void undo(PodRecord planned, Exception cause) {
        try {
            remove(folderOf(planned), PodRecord.read(folderOf(planned)).orElse(planned));
        } catch (IOException e) {
            cause.addSuppressed(e);
            LOG.warn("the rest of pod {} is removed later: {}", planned.fullName(), e.getMessage());
        }
    }

    /** Removes all resources of the pod. Idempotent. The record is deleted last. */
    void remove(Path folder, PodRecord pod) throws IOException {
        if (pod.init() != null) {
            try {
                signals.send(KILL, pod.init());
            } catch (CheckpointException e) {
                throw new IOException(e.getMessage(), e);
            }
            if (!Polling.until(KILL_LIMIT, () -> !processes.isAlive(pod.init()))) {
                throw new IOException("its init, PID " + pod.init().pid() + ", has not ended within "
                        + KILL_LIMIT.toSeconds() + " s: a process in it waits for a filesystem (state D)");
            }
        }
        runtime.delete(folder, pod);
        runtime.disconnect(pod);
        runtime.forgetNetwork(folder);
        PodCgroup.of(pod, runtime.settings()).remove();
        Optional<Path> own = claim(folder);
        if (own.isPresent()) {
            WorkDirectories.remove(own.get());
        }
        changed.run();
    }

    /** Sets what is called after a pod was started here, or removed. It must not block. */
    void onChange(Runnable task) {
        changed = task;
    }

    /** Lists the templates. */
    Collection<PodTemplate> templates() {
        return templates.values();
    }

    /** Claims a folder for removal by this caller. Returns empty if another thread or service removes it. */
    private Optional<Path> claim(Path folder) throws IOException {
        Path own = runtime.settings().directory().resolve(REMOVED + UUID.randomUUID());
        try {
            return Optional.of(Files.move(folder, own));
        } catch (NoSuchFileException another) {
            LOG.debug("{} is being removed", folder, another);
            return Optional.empty();
        }
    }

    /** Unlocks a pod. */
    synchronized void release(String id) {
        FileChannel lock = busy.remove(id);
        try {
            if (lock != null) {
                lock.close();
            }
        } catch (IOException e) {
            LOG.warn("the lock of pod {} cannot be released: {}", id, e.getMessage());
        }
    }

    Path folderOf(PodRecord pod) {
        return runtime.settings().directory().resolve(pod.id());
    }

    private List<PodRecord> recordsOrWarn() {
        try {
            return records();
        } catch (IOException e) {
            log.write("records", "the pods of this node cannot be inspected: " + e.getMessage());
            return List.of();
        }
    }

    /** Returns true if a service crashed while it made or removed that folder. */
    private static boolean isLeftBehind(Path folder) throws IOException {
        try {
            FileTime changed = Files.getLastModifiedTime(folder, LinkOption.NOFOLLOW_LINKS);
            return changed.toInstant().isBefore(Instant.now().minus(LEFT_BEHIND));
        } catch (NoSuchFileException gone) {
            LOG.trace("{} was removed", folder, gone);
            return false;
        }
    }

    /** Reads all records. Removes folders without a record, because nothing of their pods was made. */
    List<PodRecord> records() throws IOException {
        List<PodRecord> all = new ArrayList<>();
        try (DirectoryStream<Path> folders =
                Files.newDirectoryStream(runtime.settings().directory())) {
            for (Path folder : folders) {
                boolean named = !folder.getFileName().toString().startsWith(".");
                Optional<PodRecord> record = named ? PodRecord.read(folder) : Optional.empty();
                record.ifPresent(all::add);
                if (named ? record.isEmpty() : isLeftBehind(folder)) {
                    claim(folder).ifPresent(WorkDirectories::removeOrWarn);
                }
            }
        } catch (DirectoryIteratorException e) {
            throw e.getCause();
        }
        return all;
    }
}
