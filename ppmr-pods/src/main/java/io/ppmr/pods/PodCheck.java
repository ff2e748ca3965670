package io.ppmr.pods;

import io.ppmr.checkpoint.ProcessTable;
import io.ppmr.linux.Command;
import io.ppmr.linux.HostPort;
import io.ppmr.linux.LibC;
import io.ppmr.protocol.control.Finding;
import io.ppmr.transport.auth.PeerAuthenticator;
import io.ppmr.transport.auth.PeerConnection;
import io.ppmr.transport.tcp.Connector;
import java.io.IOException;
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
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Checks whether connections of this node's pods survive a pause, for {@code ppmr doctor}. It changes nothing. Each
 * program that it runs has a time limit of some seconds. It is used once, by one thread.
 *
 * @param templates what root grants
 * @param settings of all pods
 * @param key the shared key of the nodes
 */
public record PodCheck(Collection<PodTemplate> templates, PodSettings settings, PeerAuthenticator key) {
    private static final Duration LIMIT = Duration.ofSeconds(10);
    private static final Duration CONNECT_LIMIT = Duration.ofSeconds(2);
    /** Prints a bridge of this network. The command mounts a /sys of its own, which ends with the command. */
    private static final String LOOK = "mount -t sysfs none /sys && cd \"/sys/class/net/$1\" && test -d bridge"
            + " && cat addr_assign_type address";
    /** The kernel's value for a MAC address that was set by a user (sysfs-class-net). */
    private static final String SET = "3";
    /** Tries the nftables features that ppmr uses, in a network that ends with the command. */
    private static final String TRY = "ip link add eth0 type veth peer name eth1 && nft 'add table netdev t; add chain"
            + " netdev t out { type filter hook egress device \"eth0\" priority 0; policy drop; }'";

    private static final String NFT_REMEDY =
            "install the package nftables; the kernel needs netdev egress (Linux 5.16)";
    private static final int ENOUGH_RETRIES = 200;
    private static final String RETRIES = "tcp_retries2";
    private static final String RTO_MAX = "tcp_rto_max_ms";
    /** A shorter keepalive time may break a connection during a pause. The kernel's default is two hours. */
    private static final double SOON_S = 120;
    /** The form of a timer in ss(8): {@code 1.5sec}, {@code 1min30sec}, {@code 350ms}. */
    private static final Pattern KEEPALIVE =
            Pattern.compile("timer:\\(keepalive,(?:(\\d{1,9})min)?(?:(\\d{1,9}(?:\\.\\d{1,9})?)(sec|ms))?,");

    /** An address of the pod's own, which is never away. */
    private static final String LOOPBACK = " 127.";

    private static final double MS_PER_S = 1e3;
    private static final double S_PER_MIN = 60;

    public PodCheck {
        templates = List.copyOf(templates);
    }

    /** Returns all findings, in the order of docs/reference/doctor.md. */
    public List<Finding> findings() {
        List<Finding> findings = new ArrayList<>();
        templates.stream()
                .map(template -> template.network().bridge())
                .distinct()
                .sorted()
                .forEach(bridge -> findings.add(bridge(bridge)));
        boolean isQuiet = addQuiet(findings);
        findings.add(Finding.failUnless(
                        Files.exists(Path.of("/proc/sys/net/ipv4", RTO_MAX)),
                        "pod-timers",
                        "no more than a second lies between two tries of a pod's TCP (" + RTO_MAX + ")",
                        "this kernel has no " + RTO_MAX
                                + ": a peer that is not notified that an address is away may continue"
                                + " only after as long as the pause took",
                        "Linux 6.15 has it")
                .asWarning());
        findings.add(Finding.failUnless(
                LibC.listsTrackedConnections(),
                "pod-conntrack",
                "the kernel lists tracked connections, which CRIU queries in a pod's network",
                "the kernel has no nf_conntrack_netlink and cannot load it, and CRIU checkpoints no pod without it",
                "modprobe nf_conntrack_netlink, or a kernel that has it"));
        boolean arePeersReachable = addPeers(findings);
        addPods(findings, isQuiet && arePeersReachable);
        return findings;
    }

    private static Finding bridge(String bridge) {
        try {
            return bridge(
                    bridge,
                    run("unshare", "--mount", "--", "sh", "-ec", LOOK, "sh", bridge)
                            .output());
        } catch (IOException e) {
            return Finding.warn("pod-bridge", bridge + " cannot be inspected: " + e.getMessage(), "run it as root");
        }
    }

    /**
     * @param shown the kernel's report: the origin of the MAC address, and the address. Other text means that there is
     *     no bridge
     */
    static Finding bridge(String bridge, String shown) {
        List<String> lines = shown.lines().toList();
        if (lines.size() != 2 || !lines.get(0).matches("\\d+")) {
            return Finding.fail(
                    "pod-bridge",
                    "there is no bridge " + bridge,
                    "ip link add " + bridge + " address 02:51:00:00:00:01 type bridge, or correct the configuration");
        }
        String mac = lines.get(1);
        return Finding.failUnless(
                        lines.get(0).equals(SET),
                        "pod-bridge",
                        bridge + " has a MAC address of its own, " + mac,
                        bridge + " takes its MAC address, " + mac
                                + ", from its ports: when a pod comes or goes all others may stall",
                        "ip link set dev " + bridge + " address " + mac)
                .asWarning();
    }

    private static boolean addQuiet(List<Finding> findings) {
        try {
            Command.CommandResult tried = run("unshare", "--net", "--", "sh", "-ec", TRY);
            findings.add(Finding.failUnless(
                            tried.succeeded(),
                            "pod-quiet",
                            "nftables can keep pods quiet while an address is away",
                            "nftables cannot keep pods quiet while an address is away, so connections of a held pod may"
                                    + " take as long again, or end: " + tried.describe(),
                            NFT_REMEDY)
                    .asWarning());
            return tried.succeeded();
        } catch (IOException e) {
            findings.add(Finding.warn("pod-quiet", String.valueOf(e.getMessage()), NFT_REMEDY));
            return false;
        }
    }

    /** The target would log an end without an announcement as a failure. */
    private static void endInOrder(Connector.Control control) throws IOException {
        try (PeerConnection connection = control.channel()) {
            connection.shutdownOutput();
        }
    }

    private boolean addPeers(List<Finding> findings) {
        if (settings.peers().isEmpty()) {
            findings.add(Finding.warn(
                    "pod-peers",
                    "no node is notified when a pod's address is away, so peers on other nodes wait longer and"
                            + " longer, or"
                            + " fail",
                    "name the targets of the nodes with pods in peers of [pod_runtime]"));
            return false;
        }
        boolean all = true;
        for (HostPort peer : settings.peerAddresses()) {
            String name = HostPort.participant(peer.unresolved());
            try {
                endInOrder(new Connector(peer.lookUp(), key, CONNECT_LIMIT).control());
                findings.add(Finding.ok("pod-peers", name + " can be notified when a pod's address is away"));
            } catch (IOException e) {
                all = false;
                findings.add(Finding.warn(
                        "pod-peers",
                        name + " cannot be notified when a pod's address is away: " + e.getMessage(),
                        "start its target, or remove it from peers of [pod_runtime]"));
            }
        }
        return all;
    }

    // ---- the pods that run -------------------------------------------------------------------------------------

    private void addPods(List<Finding> findings, boolean isQuiet) {
        Map<Path, PodRecord> pods = new LinkedHashMap<>();
        if (Files.isDirectory(settings.directory())) {
            try (DirectoryStream<Path> folders = Files.newDirectoryStream(settings.directory())) {
                for (Path folder : folders) {
                    PodRecord.read(folder).ifPresent(pod -> pods.put(folder, pod));
                }
            } catch (IOException e) {
                findings.add(Finding.warn(
                        "pod", settings.directory() + " cannot be inspected: " + e.getMessage(), "run it as root"));
            }
        }
        ProcessTable processes = new ProcessTable();
        pods.forEach((folder, pod) -> {
            if (pod.begun() && !pod.moves() && processes.isAlive(pod.init())) {
                try {
                    Path network = PodRuntime.networkFile(folder);
                    findings.add(retries(pod, network));
                    keepalives(pod.fullName(), in(network, "ss", "-tnoH", "state", "established"), isQuiet)
                            .ifPresent(findings::add);
                } catch (IOException e) {
                    findings.add(Finding.warn(
                            "pod",
                            "pod " + pod.fullName() + " cannot be inspected: " + e.getMessage(),
                            "run it as root; install iproute2"));
                }
            }
        });
    }

    private static Finding retries(PodRecord pod, Path network) throws IOException {
        String retries = in(network, "cat", "/proc/sys/net/ipv4/" + RETRIES).strip();
        if (!retries.matches("\\d{1,9}")) {
            throw new IOException(RETRIES + " is no number: '" + retries + "'");
        }
        return Finding.failUnless(
                        Integer.parseInt(retries) >= ENOUGH_RETRIES,
                        "pod-retries",
                        "pod " + pod.fullName() + ": " + RETRIES + " is " + retries,
                        "pod " + pod.fullName() + ": " + RETRIES + " is " + retries
                                + ", and each try during a pause counts",
                        "nsenter --net=" + network + " sysctl -w net.ipv4." + RETRIES + "=" + ENOUGH_RETRIES)
                .asWarning();
    }

    /**
     * Lists findings about connections with keepalive.
     *
     * @param shown the sockets, as ss(8) lists them with their timers
     * @param isQuiet whether the probes of both ends are dropped locally while the address is away
     */
    static Optional<Finding> keepalives(String pod, String shown, boolean isQuiet) {
        TreeSet<Double> soon = new TreeSet<>();
        shown.lines()
                .filter(socket -> !socket.contains(LOOPBACK))
                .map(KEEPALIVE::matcher)
                .filter(Matcher::find)
                .forEach(timer -> {
                    double seconds = timer.group(1) == null ? 0 : Integer.parseInt(timer.group(1)) * S_PER_MIN;
                    if (timer.group(2) != null) {
                        seconds += Double.parseDouble(timer.group(2))
                                / (timer.group(3).equals("ms") ? MS_PER_S : 1);
                    }
                    if (seconds < SOON_S) {
                        soon.add(seconds);
                    }
                });
        if (soon.isEmpty()) {
            return Optional.empty();
        }
        String text = "pod " + pod + ": a connection checks within " + (long) Math.ceil(soon.first())
                + " s whether its peer is there (keepalive)";
        return Optional.of(
                isQuiet
                        ? Finding.ok("pod-keepalive", text + "; while a pod is held neither end does")
                        : Finding.warn(
                                "pod-keepalive",
                                text + ", and may fail while a pod is held",
                                "see to pod-quiet and pod-peers, or have the program check more rarely"));
    }

    private static String in(Path network, String... words) throws IOException {
        List<String> all = new ArrayList<>(List.of("nsenter", "--net=" + network, "--"));
        all.addAll(List.of(words));
        return run(all.toArray(String[]::new)).requireOutput();
    }

    private static Command.CommandResult run(String... words) throws IOException {
        return Command.of(List.of(words)).runUninterruptibly(LIMIT);
    }
}
