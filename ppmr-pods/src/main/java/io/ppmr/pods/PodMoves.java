package io.ppmr.pods;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.Enclosure;
import io.ppmr.checkpoint.ProcessTable;
import io.ppmr.checkpoint.SignalSender;
import io.ppmr.linux.Command;
import io.ppmr.linux.Ipv4Address;
import io.ppmr.linux.LogContext;
import io.ppmr.linux.ParallelWork;
import io.ppmr.linux.ProcFiles;
import io.ppmr.linux.ProcessIdentity;
import io.ppmr.migration.RankSurroundings;
import io.ppmr.migration.RequestException;
import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.protocol.control.Finding;
import io.ppmr.protocol.control.MigrationSecret;
import io.ppmr.protocol.control.PodFacts;
import io.ppmr.protocol.control.ReturnToken;
import io.ppmr.transport.auth.PeerAuthenticator;
import java.io.IOException;
import java.nio.file.AccessDeniedException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Collectors;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The pods of a node while migrations bring or remove them. Before each step, the pod's record names what the step
 * makes or removes, and its migration. So the next run of the service repeats or reverts the step. It is safe for any
 * thread. One migration calls it for one move at a time.
 */
final class PodMoves implements RankSurroundings {
    private static final Logger LOG = LoggerFactory.getLogger(PodMoves.class);
    private static final int KILL = 9;
    private static final Duration KILL_LIMIT = Duration.ofSeconds(10);
    private static final long LOOK_NS = 5_000_000;
    /** The time for the rest of an earlier attempt of a job to be removed. The source waits longer for the answer. */
    private static final Duration DISCARD_LIMIT = Duration.ofSeconds(15);

    private static final long DISCARD_LOOK_NS = 100_000_000;
    /** The name of the network namespace in CRIU's arguments. CRIU restores nothing in it. */
    private static final String NETWORK = "extnet";
    /**
     * Shell script that joins the pod's cgroups, bind-mounts its root, opens its network namespace as fd 9 and execs
     * the tool.
     */
    private static final String ENTER = "for cgroup in $3; do echo 0 >\"$cgroup/cgroup.procs\" || exit 1; done;"
            + " mount --bind \"$1\" \"$1\" && exec 9<\"$2\" && shift 3 && exec \"$@\"";

    private static final String NETWORK_DESCRIPTOR = "9";

    // As ppmr-pod-net lists a socket: PID, descriptor, inode, domain, type, protocol. address_families(7),
    // protocols(5).
    private static final int SOCKET_FIELDS = 6;
    private static final int DOMAIN = 3;
    private static final int PROTOCOL = 5;
    private static final String UNIX = "1";
    private static final String NETLINK = "16";
    private static final Set<String> INTERNET = Set.of("2", "10");
    /** TCP, UDP, UDP-Lite. */
    private static final Set<String> MOVABLE_PROTOCOLS = Set.of("6", "17", "136");

    private static final String MULTIPATH_TCP = "262";

    // As ppmr-pod-net lists a connection: PID, descriptor, the peer's address, its port.
    private static final int CONNECTION_FIELDS = 4;
    private static final int PEER = 2;
    private static final int PEER_PORT = 3;
    private static final String LOOPBACK = "127.";
    private static final String LOOPBACK6 = "::1";

    private final Pods pods;
    private final PodRuntime runtime;
    private final PodQuiet quiet;
    private final PodPeers peers;
    private final PeerNotices notices;
    private final Path podInit;
    /** The programs for the cables of the pods that a checkpoint holds, by its name. */
    private final Map<String, PodCables> cables = new ConcurrentHashMap<>();

    private final ProcessTable processes = new ProcessTable();
    private final SignalSender signals = new SignalSender(processes);

    PodMoves(Pods pods, PodRuntime runtime, Path podInit, PeerAuthenticator key) {
        this.pods = pods;
        this.runtime = runtime;
        this.quiet = new PodQuiet(runtime);
        this.peers = new PodPeers(pods, quiet);
        this.notices = new PeerNotices(runtime.settings().peerAddresses(), key, peers, this::isUnderWay);
        this.podInit = podInit;
    }

    /** Continues the notices of a crashed service about moving pods, and removes its leftovers in the pods here. */
    void resume() throws IOException {
        peers.sweep();
        List<PodRecord> all;
        synchronized (pods) {
            all = pods.records();
        }
        all.stream()
                .filter(pod -> pod.moves() && pod.move().notifies() && (!pod.arrives() || pod.init() != null))
                .forEach(pod -> notices.leaves(
                        pod.move().migration(), pod.address(), pod.move().token()));
    }

    /** Returns true if a move is not over. If a record cannot be read, the move counts as not over. */
    private boolean isUnderWay(String move) {
        try {
            return has(move);
        } catch (IOException e) {
            LOG.debug("the state of move {} is unknown", move, e);
            return true;
        }
    }

    // ---- source ------------------------------------------------------------------------------------------------

    @Override
    public void requireMovable(ProcessIdentity init) throws IOException, CheckpointException {
        PodRecord pod = byInit(init);
        Set<ProcessIdentity> tree = Set.copyOf(processes.tree(init));
        for (ProcessIdentity process : processes.inNamespace(init.pidNamespace())) {
            if (!tree.contains(process) && processes.isAlive(process)) {
                throw new CheckpointException("pod " + pod.fullName() + ": PID " + process.pid() + " ("
                        + processes.name(process).orElse("?") + ") is in the pod and no descendant of its init, as what"
                        + " ppmr pod exec runs without --detach. Remedy: wait for its end, or end it");
            }
        }
        for (String line : runtime.sockets(PodRuntime.number(networkOf(pod)))) {
            String[] fields = line.split(" ", -1);
            if (fields.length != SOCKET_FIELDS) {
                throw new IOException("the sockets of pod " + pod.fullName() + " are listed as '" + line + "'");
            }
            requireMovable(pod, fields);
        }
    }

    private static void requireMovable(PodRecord pod, String[] socket) throws CheckpointException {
        String protocol = socket[PROTOCOL];
        boolean internet = INTERNET.contains(socket[DOMAIN]) && MOVABLE_PROTOCOLS.contains(protocol);
        if (internet || socket[DOMAIN].equals(UNIX) || socket[DOMAIN].equals(NETLINK)) {
            return;
        }
        String kind = INTERNET.contains(socket[DOMAIN])
                ? protocol.equals(MULTIPATH_TCP) ? "Multipath TCP" : "Internet protocol " + protocol
                : "domain " + socket[DOMAIN] + ", protocol " + protocol;
        throw new CheckpointException("pod " + pod.fullName() + ": PID " + socket[0] + " has a socket of a kind that"
                + " cannot be moved (" + kind + ", descriptor " + socket[1] + "). Remedy: have the job use plain TCP,"
                + " UDP or Unix sockets, or close it before");
    }

    @Override
    public List<OutgoingConnection> connections(ProcessIdentity init) throws IOException {
        PodRecord pod = byInit(init);
        Set<String> own = Set.copyOf(pod.addresses().all());
        List<OutgoingConnection> connections = new ArrayList<>();
        for (String line : runtime.connections(PodRuntime.number(networkOf(pod)))) {
            String[] fields = line.split(" ", -1);
            if (fields.length != CONNECTION_FIELDS) {
                throw new IOException("the connections of pod " + pod.fullName() + " are listed as '" + line + "'");
            }
            String peer = fields[PEER];
            if (!own.contains(peer) && !peer.startsWith(LOOPBACK) && !peer.equals(LOOPBACK6)) {
                connections.add(new OutgoingConnection(
                        pod.fullName(), Integer.parseInt(fields[0]), peer, Integer.parseInt(fields[PEER_PORT])));
            }
        }
        return connections;
    }

    @Override
    public Enclosure enclosure(ProcessIdentity init) throws IOException {
        PodRecord pod = byInit(init);
        long network = PodRuntime.number(networkOf(pod));
        List<String> arguments =
                Command.words("--tcp-established --network-lock skip --external %s", "net[" + network + "]:" + NETWORK);
        for (String mount : mountsOf(pod)) {
            arguments.addAll(List.of("--external", "mnt[" + mount + "]:" + cookie(mount)));
        }
        return new Enclosure(List.of(), arguments);
    }

    @Override
    public RankDeparture leave(String move, Optional<MigrationSecret> secret, ProcessIdentity init) throws IOException {
        PodRecord pod = leaving(move, secret, init);
        Path folder = pods.folderOf(pod);
        Path network = networkOf(pod);
        if (secret.isEmpty()) {
            cables.computeIfAbsent(move, this::startCables);
        }
        return () -> {
            if (pod.move().notifies()) {
                notices.leaves(move, pod.address(), pod.move().token());
            }
            quiet.unplug(folder, pod, network, Optional.ofNullable(cables.get(move)));
            LOG.info("pod {}: its cable is out, for migration {}", pod.fullName(), move);
        };
    }

    /** Returns null if it cannot be started: each cable gets a program of its own then. */
    private PodCables startCables(String move) {
        try {
            return runtime.startCables();
        } catch (IOException e) {
            LOG.info("{}: the program for cables is started later: {}", move, e.getMessage());
            return null;
        }
    }

    /** Writes into the pod's record that it leaves, unless its user ends it at this time. */
    private PodRecord leaving(String move, Optional<MigrationSecret> secret, ProcessIdentity init) throws IOException {
        PodRecord seen = byInit(init);
        if (!pods.take(seen)) {
            throw new IOException("pod " + seen.fullName() + " is being ended. Remedy: migrate the rest of the job");
        }
        try {
            PodRecord pod = byInit(init);
            if (pod.moves() && !pod.movesBy(move)) {
                throw new IOException("pod " + pod.fullName() + " is being moved by migration "
                        + pod.move().migration());
            }
            PodRecord leaves = pod.leaving(
                    move,
                    secret.map(known -> ReturnToken.of(known, pod.address())).orElse(null));
            leaves.write(pods.folderOf(pod));
            return leaves;
        } finally {
            pods.release(seen.id());
        }
    }

    private List<String> mountsOf(PodRecord pod) throws IOException {
        return pods.facts(pod)
                .map(PodFacts::mounts)
                .orElseThrow(() -> new IOException("pod " + pod.fullName() + " is of [pods."
                        + pod.specification().template() + "], which is not in this node's configuration"));
    }

    /** Returns the name of a mount in the image, the same on both sides. */
    private static String cookie(String mount) {
        return "node" + mount.replace('/', '.');
    }

    private PodRecord byInit(ProcessIdentity init) throws IOException {
        return pods.running().stream()
                .filter(pod -> init.equals(pod.init()))
                .findFirst()
                .orElseThrow(() -> new IOException("PID " + init.pid() + " is no longer a pod's init: it ended"));
    }

    private Path networkOf(PodRecord pod) {
        return PodRuntime.networkFile(pods.folderOf(pod));
    }

    @Override
    public void disconnect(String move) throws IOException {
        notices.leave(move);
        for (PodRecord pod : pods.moving(move)) {
            runtime.disconnect(pod);
        }
    }

    @Override
    public void ended(String move) throws IOException {
        for (PodRecord pod : pods.moving(move)) {
            if (!pod.arrives()) {
                if (pod.move().notifies()) {
                    notices.hasGone(move, pod.address(), pod.move().token());
                }
                pods.takeAway(pod);
            }
        }
    }

    // ---- target ------------------------------------------------------------------------------------------------

    @Override
    public List<Finding> findings(Collection<PodFacts> job) {
        try {
            Map<PodFacts, List<String>> reasons = new LinkedHashMap<>();
            long endNs = System.nanoTime() + DISCARD_LIMIT.toNanos();
            for (PodFacts pod : job) {
                reasons.put(pod, reasonsAgainst(pod, endNs));
            }
            addThoseOfNetworks(reasons);
            List<Finding> findings = new ArrayList<>();
            reasons.forEach((pod, against) -> {
                if (against.isEmpty()) {
                    findings.add(Finding.ok(
                            Finding.PODS,
                            "the pod can continue here, at " + pod.addresses().address()));
                }
                against.forEach(reason -> findings.add(Finding.fail(Finding.PODS, reason, "")));
            });
            return findings;
        } catch (IOException e) {
            return List.of(Finding.fail(
                    Finding.PODS, "whether the pods can continue here cannot be said: " + e.getMessage(), ""));
        }
    }

    private List<String> reasonsAgainst(PodFacts pod, long endNs) throws IOException {
        Optional<Ipv4Address> address = Ipv4Address.parse(pod.addresses().address());
        Optional<PodTemplate> found = pods.template(pod.specification().template());
        if (found.isEmpty()
                || address.isEmpty()
                || !PodOrder.isName(pod.specification().name())
                || !PodOrder.isName(pod.specification().job())
                || !found.get().grants(pod.uid(), address.get())) {
            return List.of("no [pods." + pod.specification().template() + "] of this node grants "
                    + pod.addresses().address() + " to user " + Integer.toUnsignedString(pod.uid())
                    + ": write the same template on both nodes");
        }
        PodTemplate template = found.get();
        List<String> reasons = new ArrayList<>();
        String same = ": write the same [pods." + pod.specification().template() + "] on both nodes";
        if (!template.macOf(address.get()).equals(pod.addresses().mac())
                || template.network().prefix() != pod.prefixBits()) {
            reasons.add("the pod has " + pod.addresses().mac() + " and a network of " + pod.prefixBits()
                    + " bits, here it would have " + template.macOf(address.get()) + " and "
                    + template.network().prefix() + same);
        }
        if (!template.address6Of(address.get()).equals(pod.addresses().address6())) {
            reasons.add("the pod has "
                    + (pod.addresses().address6().isEmpty()
                            ? "no IPv6 address"
                            : "the IPv6 address " + pod.addresses().address6())
                    + ", here it would have "
                    + (template.network().network6().isEmpty() ? "none" : template.address6Of(address.get()))
                    + " (network6)"
                    + same);
        }
        if (template.network().mtu() != pod.mtuBytes()) {
            reasons.add("the largest packet of the pod has " + pod.mtuBytes() + " bytes, here "
                    + template.network().mtu() + " (mtu)" + same);
        }
        Set<String> mounts = new TreeSet<>(pod.mounts());
        if (!mounts.equals(new TreeSet<>(template.mounts().all()))) {
            reasons.add("the pod sees the directories " + mounts + " of its node, here it would see "
                    + new TreeSet<>(template.mounts().all()) + same);
        }
        if (runtime.settings().cgroups() == PodSettings.Cgroups.SYSTEMD) {
            reasons.add("cgroups = \"systemd\" of [pod_runtime] makes no cgroup for a pod that comes: set cgroupfs");
        }
        try {
            PodBundle.requireFit(template);
        } catch (RequestException e) {
            reasons.add(e.getMessage());
        }
        taken(pod, endNs).ifPresent(reasons::add);
        Optional<String> none = runtime.whyNoBridge(template.network().bridge());
        if (none.isPresent()) {
            reasons.add(
                    none.get() + ", which [pods." + template.name() + "] names: make it, or correct the configuration");
        }
        return reasons;
    }

    /**
     * Waits for the end of a copy that an attempt of a migration brings, which may be the one before this.
     *
     * @param endNs the end of the wait, the same for all pods of a job
     */
    private Optional<String> taken(PodFacts pod, long endNs) throws IOException {
        Optional<PodRecord> other = holderOf(pod);
        while (other.filter(PodRecord::arrives).isPresent() && System.nanoTime() - endNs < 0) {
            LockSupport.parkNanos(DISCARD_LOOK_NS);
            other = holderOf(pod);
        }
        return other.map(holder -> holder.arrives()
                ? "pod " + holder.fullName() + " arrives here by migration "
                        + holder.move().migration() + ": wait for its end"
                : "pod " + holder.fullName() + " of this node has that name, or "
                        + pod.addresses().address() + ": stop it");
    }

    private Optional<PodRecord> holderOf(PodFacts pod) throws IOException {
        synchronized (pods) {
            return pods.records().stream()
                    .filter(other -> other.address().equals(pod.addresses().address())
                            || (other.uid() == pod.uid()
                                    && other.name().equals(pod.specification().name())))
                    .findFirst();
        }
    }

    /**
     * Queries each bridge once for the owners of the addresses of all pods without other findings. The owner must be
     * the pod itself, at its source, and no other host.
     */
    private void addThoseOfNetworks(Map<PodFacts, List<String>> reasons) throws IOException {
        Map<String, List<PodFacts>> byBridge = reasons.keySet().stream()
                .filter(pod -> reasons.get(pod).isEmpty())
                .collect(Collectors.groupingBy(
                        pod -> pods.template(pod.specification().template())
                                .orElseThrow()
                                .network()
                                .bridge()));
        for (Map.Entry<String, List<PodFacts>> asked : byBridge.entrySet()) {
            List<String> addresses = asked.getValue().stream()
                    .flatMap(pod -> pod.addresses().all().stream())
                    .toList();
            Map<String, Set<String>> having = runtime.whoHas(asked.getKey(), addresses);
            for (PodFacts pod : asked.getValue()) {
                for (String address : pod.addresses().all()) {
                    if (reasons.get(pod).isEmpty()) {
                        network(pod, asked.getKey(), address, having.getOrDefault(address, Set.of()))
                                .ifPresent(reasons.get(pod)::add);
                    }
                }
            }
        }
    }

    /** @param having the MAC addresses that answer for the address at the bridge */
    private Optional<String> network(PodFacts pod, String bridge, String address, Set<String> having)
            throws IOException {
        if (runtime.hasAddress(address)) {
            return Optional.of("the address " + address + " is this node's own: free it");
        }
        Optional<String> other = having.stream()
                .filter(mac -> !mac.equals(pod.addresses().mac()))
                .findFirst();
        if (other.isPresent()) {
            return Optional.of(
                    "the address " + address + " is in use at bridge " + bridge + ", by " + other.get() + ": free it");
        }
        if (!having.isEmpty() && !pod.answers()) {
            return Optional.of("the pod answers at bridge " + bridge + " for " + address
                    + ", though nothing of it may run: stop it where it runs");
        }
        return having.isEmpty() && pod.answers()
                ? Optional.of("the pod does not answer at bridge " + bridge + " for " + address
                        + ", so that is another network"
                        + " than the one that it is in now: plug both nodes' bridges into one network")
                : Optional.empty();
    }

    @Override
    public Enclosure prepare(String move, Optional<MigrationSecret> secret, PodFacts facts, boolean isHeld)
            throws IOException {
        PodTemplate template = pods.template(facts.specification().template())
                .orElseThrow(() -> new IOException(
                        "there is no [pods." + facts.specification().template() + "] on this node"));
        String address = facts.addresses().address();
        String link = Ipv4Address.parse(address)
                .map(parsed -> "ppmr" + parsed.bytes("%02x", ""))
                .orElseThrow(() -> new IOException("the pod's address is none"));
        PodRecord pod = new PodRecord(
                facts.specification(),
                facts.uid(),
                facts.gid(),
                facts.addresses(),
                template.network().bridge(),
                link,
                template.mounts().all(),
                facts.startedAtMs(),
                null,
                false,
                0,
                new PodRecord.PodMove(
                        move,
                        true,
                        secret.map(known -> ReturnToken.of(known, address)).orElse(null)));
        try {
            pods.note(pod);
            if (isHeld && pod.move().notifies()) {
                notices.leaves(move, pod.address(), pod.move().token());
            }
            return make(pod, template);
        } catch (RequestException e) {
            throw new IOException(e.getMessage(), e);
        } finally {
            // From now on its record names its migration.
            pods.release(pod.id());
        }
    }

    private Enclosure make(PodRecord pod, PodTemplate template) throws IOException, RequestException {
        Path folder = pods.folderOf(pod);
        Path root = new PodBundle(folder, podInit).writeRoot(template);
        runtime.makeNetwork(folder, pod, template);
        Path network = PodRuntime.networkFile(folder);
        pod.into(PodRuntime.number(network)).write(folder);
        quiet.mute(folder, pod, network);
        PodCgroup cgroup = PodCgroup.of(pod, runtime.settings());
        cgroup.make(template);
        String cgroups = cgroup.directories().stream().map(Path::toString).collect(Collectors.joining(" "));
        List<String> before = Command.words(
                "unshare --mount --propagation slave -- sh -c %s sh %s %s %s", ENTER, root, network, cgroups);
        List<String> arguments = Command.words(
                "--tcp-established --network-lock skip --inherit-fd %s --root %s",
                "fd[" + NETWORK_DESCRIPTOR + "]:" + NETWORK, root);
        for (String mount : template.mounts().all()) {
            arguments.addAll(List.of(
                    "--external", "mnt[" + cookie(mount) + "]:" + Path.of(mount).toRealPath()));
        }
        return new Enclosure(before, arguments);
    }

    @Override
    public void restored(String move, PodFacts facts, ProcessIdentity init) throws IOException {
        PodRecord pod = pods.moving(move).stream()
                .filter(coming -> coming.uid() == facts.uid()
                        && coming.name().equals(facts.specification().name()))
                .findFirst()
                .orElseThrow(() -> new IOException("nothing is known of the pod that arrived by migration " + move));
        // The PID is valid, because the migration holds the pod.
        if (PodRuntime.number(Path.of("/proc", Integer.toString(init.pid()), "ns", "net")) != pod.network()
                || !processes.isAlive(init)) {
            throw new IOException("pod " + pod.fullName() + " was restored in another network namespace than its own");
        }
        Optional<String> none = runtime.whyNoBridge(pod.bridge());
        if (none.isPresent()) {
            throw new IOException(none.get() + ", so the pod would have no network. Remedy: make it again");
        }
        pod.with(init, false).write(pods.folderOf(pod));
        if (pod.move().notifies()) {
            notices.leaves(move, pod.address(), pod.move().token());
        }
    }

    @Override
    public void discard(String move) throws IOException {
        Set<String> notified = notices.addressesOf(move);
        notices.leave(move);
        for (PodRecord pod : pods.moving(move)) {
            if (pod.arrives()) {
                // The source notifies its own peers, and this node may be none of them. A return without a notice
                // before
                // it would have this node ignore the next attempt's notices.
                if (notified.contains(pod.address())) {
                    notices.hasGone(move, pod.address(), pod.move().token());
                }
                Path folder = pods.folderOf(pod);
                endAllIn(folder, pod);
                pods.remove(folder, pod);
                LOG.info("pod {}: nothing is left here of what migration {} has brought", pod.fullName(), move);
            }
        }
    }

    /** Kills all processes in the pod's network, while its file still refers to that network. */
    private void endAllIn(Path folder, PodRecord pod) throws IOException {
        long deadlineNs = System.nanoTime() + KILL_LIMIT.toNanos();
        try {
            Path file = PodRuntime.networkFile(folder);
            while (pod.network() != 0 && Files.exists(file) && PodRuntime.number(file) == pod.network()) {
                List<ProcessIdentity> left = membersOf(pod.network());
                if (left.isEmpty()) {
                    return;
                }
                for (ProcessIdentity process : left) {
                    signals.send(KILL, process);
                }
                if (System.nanoTime() - deadlineNs > 0) {
                    throw new IOException("the processes of the copy of pod " + pod.fullName() + " do not end: PID "
                            + left.get(0).pid() + " waits for a filesystem (state D)");
                }
                LockSupport.parkNanos(LOOK_NS);
            }
        } catch (CheckpointException e) {
            throw new IOException(e.getMessage(), e);
        }
    }

    private List<ProcessIdentity> membersOf(long network) throws IOException {
        List<ProcessIdentity> members = new ArrayList<>();
        try (DirectoryStream<Path> all = Files.newDirectoryStream(Path.of("/proc"), "[0-9]*")) {
            for (Path one : all) {
                // The network is compared first. Nothing else is read of a process outside of the pod.
                if (isIn(one, network)) {
                    processes
                            .find(Integer.parseInt(one.getFileName().toString()))
                            .ifPresent(members::add);
                }
            }
        }
        return members;
    }

    private static boolean isIn(Path process, long network) throws IOException {
        try {
            return ProcFiles.status(process.resolve("ns/net").toString())
                    .filter(status -> status.inode() == network)
                    .isPresent();
        } catch (AccessDeniedException e) {
            // Root can read every process of a pod. An unreadable process is protected by a security module.
            LOG.debug("{} may not be inspected, and belongs to no pod", process, e);
            return false;
        }
    }

    // ---- peers -------------------------------------------------------------------------------------------------

    @Override
    public int noteAddressAway(ControlMessage.AddressAway away) throws IOException, RequestException {
        return peers.onNotice(away);
    }

    // ---- either ------------------------------------------------------------------------------------------------

    @Override
    public boolean has(String move) throws IOException {
        return !pods.moving(move).isEmpty();
    }

    @Override
    public List<String> arriving() throws IOException {
        synchronized (pods) {
            return pods.offered()
                    ? pods.records().stream()
                            .filter(PodRecord::arrives)
                            .map(pod -> pod.move().migration())
                            .distinct()
                            .toList()
                    : List.of();
        }
    }

    @Override
    public void attach(String move) throws IOException {
        ParallelWork.forEach("ppmr-pod-attach", pods.moving(move), pod -> attach(move, pod));
    }

    private void attach(String move, PodRecord pod) throws IOException {
        if (processes.isAlive(pod.init())) {
            quiet.plug(pods.folderOf(pod), pod, networkOf(pod), Optional.ofNullable(cables.get(move)));
            if (pod.move().notifies()) {
                notices.isBack(move, pod.address(), pod.move().token());
            }
        }
        LOG.info("pod {}: its cable is in, at {}", pod.fullName(), pod.address());
    }

    @Override
    public void settle(String move) throws IOException {
        // Each syncs a record, which takes some tenths of a second while the images of a checkpoint are written.
        ParallelWork.forEach("ppmr-pod-settle", pods.moving(move), this::settle);
        Optional.ofNullable(cables.remove(move)).ifPresent(PodCables::close);
    }

    private void settle(PodRecord pod) throws IOException {
        PodRecord here = pod.settled();
        here.write(pods.folderOf(pod));
        pods.takeAwayWhenItEnds(here);
        // A switch that lost the first announcement receives others.
        LogContext.thread(() -> announceAgain(pod), "ppmr-pod-announce").start();
    }

    private void announceAgain(PodRecord pod) {
        try {
            if (processes.isAlive(pod.init())) {
                runtime.announce(pod, networkOf(pod));
            }
        } catch (IOException | RuntimeException e) {
            LOG.info("pod {}: it was announced once only: {}", pod.fullName(), e.getMessage());
        }
    }
}
