package io.ppmr.pods;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.CommandStarter;
import io.ppmr.checkpoint.ProcessTable;
import io.ppmr.linux.Command;
import io.ppmr.linux.OutputBudget;
import io.ppmr.linux.ProcessIdentity;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Runs the programs that make and remove pods: an OCI runtime, crun(1), for namespaces, mounts and cgroups, and ip(8)
 * for the network. Each has the time limit {@link #LIMIT}, and starts in the same way as checkpointers' commands, so
 * that the pods outlive the service. It is immutable and safe for any thread.
 *
 * @param settings the configuration's
 * @param podNet the program that lists pods' sockets, drops packets, and sends ARP packets
 * @param podEnter the program that runs commands in pods that arrived from another node
 * @param starter starts the programs
 */
record PodRuntime(PodSettings settings, Path podNet, Path podEnter, CommandStarter starter) {
    private static final Logger LOG = LoggerFactory.getLogger(PodRuntime.class);
    /** The time limit of one command. A busy node needs 1 s. */
    static final Duration LIMIT = Duration.ofSeconds(30);

    static final String NETWORK_LINK = "eth0";
    /** The time that hosts on a network have to answer an ARP query. */
    private static final int ASK_MS = 600;

    /** Output limit for the list of a pod's sockets: some 40,000 of them. */
    private static final int SOCKETS_BYTES = 4 << 20;

    private static final String NETWORK_FILE = "net";
    /** Makes a veth pair, one end of it in the current network. */
    private static final String LAY = "nsenter --net=\"$1\" -- ip link add name \"$2\" address \"$3\" mtu \"$4\""
            + " type veth peer name \"$5\" mtu \"$4\" netns $$";

    private static final String STATE = "state";
    private static final String CGROUPS = "/ppmr-pod-";

    /** Returns the path of a pod's cgroup in the form of the runtime, or empty for none. */
    String cgroupOf(PodRecord pod) {
        return switch (settings.cgroups()) {
            case CGROUPFS -> CGROUPS + pod.id();
            // Slice, prefix and name, of which systemd makes a scope.
            case SYSTEMD -> "system.slice:ppmr-pod:" + pod.id();
            case DISABLED -> "";
        };
    }

    /** Makes a pod without starting its command, and returns the PID of its init. */
    int create(Path folder, PodRecord pod) throws IOException {
        Path pidFile = folder.resolve("pid");
        run(crun(folder, "create", "--bundle", folder.toString(), "--pid-file", pidFile.toString(), pod.id()));
        String text = Files.readString(pidFile, StandardCharsets.US_ASCII).strip();
        try {
            return Integer.parseInt(text);
        } catch (NumberFormatException e) {
            throw new IOException("the runtime names '" + text + "' as the PID of a pod's init", e);
        }
    }

    /** Starts the command. */
    void start(Path folder, PodRecord pod) throws IOException {
        run(crun(folder, "start", pod.id()));
    }

    /** Runs a further command in a pod until it ends. Its only descriptors are its output, a pipe. */
    Command.CommandResult execute(
            Path folder, PodRecord pod, Path process, Duration limit, OutputBudget.BudgetShare output)
            throws IOException {
        return result(
                crun(folder, "exec", "--process", process.toString(), pod.id()),
                limit,
                command -> command.withinBudget(output));
    }

    /**
     * Runs a further command in a pod that arrived from another node. The runtime does not know this pod.
     *
     * @param environment a file of NAME=VALUE, each followed by a zero byte
     */
    Command.CommandResult enter(
            PodRecord pod,
            Collection<Integer> groups,
            Path environment,
            List<String> words,
            Duration limit,
            OutputBudget.BudgetShare output)
            throws IOException {
        List<String> all = new ArrayList<>(withoutInput());
        all.addAll(Command.words(
                "%s --pid %s --start-ticks %s --uid %s --gid %s",
                podEnter,
                pod.init().pid(),
                pod.init().startTimeTicks(),
                Integer.toUnsignedString(pod.uid()),
                Integer.toUnsignedString(pod.gid())));
        groups.forEach(group -> all.addAll(List.of("--group", Integer.toUnsignedString(group))));
        PodCgroup.of(pod, settings).directories().forEach(cgroup -> all.addAll(List.of("--cgroup", cgroup.toString())));
        all.addAll(Command.words("--environment %s --seconds %s --", environment, limit.toSeconds()));
        all.addAll(words);
        return result(all, limit, command -> command.withinBudget(output));
    }

    private static List<String> withoutInput() {
        return List.of("sh", "-c", "true | exec \"$@\"", "sh");
    }

    /** Returns true if the runtime made the pod here, and false for a pod that arrived by a move. */
    boolean knows(Path folder, PodRecord pod) {
        return Files.exists(folder.resolve(STATE).resolve(pod.id()), LinkOption.NOFOLLOW_LINKS);
    }

    /** Kills the rest of a pod and removes its cgroup. Does nothing if the runtime does not know the pod. */
    void delete(Path folder, PodRecord pod) throws IOException {
        if (knows(folder, pod)) {
            run(crun(folder, "delete", "--force", pod.id()));
        }
    }

    /** The runtime's input is a closed pipe: the runtime changes the owner of its standard streams, fchown(2). */
    private List<String> crun(Path folder, String... words) {
        List<String> all = new ArrayList<>(withoutInput());
        all.addAll(settings.program());
        all.addAll(Command.words(
                "--root %s --cgroup-manager %s",
                folder.resolve(STATE), settings.cgroups().name().toLowerCase(Locale.ROOT)));
        all.addAll(List.of(words));
        return all;
    }

    private static List<String> inside(PodRecord pod, PodTemplate template) {
        List<String> inside = new ArrayList<>(List.of(
                "link set dev lo up",
                "address add " + pod.address() + "/" + template.network().prefix() + " dev " + NETWORK_LINK));
        // The address is set without duplicate address detection, because bind(2) fails during it.
        template.network()
                .network6()
                .ifPresent(network -> inside.add("address add "
                        + pod.addresses().address6() + "/" + network.prefixBits() + " dev " + NETWORK_LINK + " nodad"));
        inside.add("link set dev " + NETWORK_LINK + " up");
        template.network().gateway().ifPresent(gateway -> inside.add("route add default via " + gateway));
        return inside;
    }

    /** Deletes the node's end of a veth pair, and with it the pod's end. Does nothing if the pair is missing. */
    void disconnect(PodRecord pod) throws IOException {
        if (isThere(pod.link())) {
            Command.CommandResult gone = result(Command.words("ip link delete dev %s", pod.link()), LIMIT);
            // The kernel deletes it shortly after a pod ended.
            if (!gone.succeeded() && isThere(pod.link())) {
                throw new IOException(gone.describe());
            }
        }
    }

    // ---- moving ------------------------------------------------------------------------------------------------

    /** Sets the node's end of the veth pair up, in its bridge. */
    void setVethUp(PodRecord pod) throws IOException {
        run("ip link set dev %s master %s up", pod.link(), pod.bridge());
    }

    /** The packets that a network drops while its pod is held, as ppmr-pod-net shows them. */
    enum DroppedPackets {
        /** All that leave it, and those between its processes. */
        ALL,
        /** Those between its processes. */
        INSIDE,
        NOTHING
    }

    /** Drops the packets that leave a pod's network, and those between its processes, as far as the kernel can. */
    DroppedPackets dropPackets(Path network) throws IOException {
        return dropped(cable(Optional.empty(), Command.words("quiet %s %s", network, NETWORK_LINK)));
    }

    /** Starts a program for the cables of pods that will be held. */
    PodCables startCables() throws IOException {
        try {
            return new PodCables(starter.converse(List.of(podNet.toString(), "cables")), LIMIT);
        } catch (CheckpointException e) {
            throw new IOException(e.getMessage(), e);
        }
    }

    /**
     * Does the same, and sets the node's end of the veth pair down: no packet reaches or leaves the pod, and it keeps
     * its addresses. Then it switches TCP_REPAIR off in every socket where a checkpoint left it on. One program does
     * all of it, because the pod is held from here on.
     *
     * @param cables the program that was started for it, if there is one
     */
    DroppedPackets unplug(PodRecord pod, Path network, Optional<PodCables> cables) throws IOException {
        return dropped(cable(cables, Command.words("unplug %s %s %s", network, NETWORK_LINK, pod.link())));
    }

    private DroppedPackets dropped(String word) throws IOException {
        return Stream.of(DroppedPackets.values())
                .filter(one -> one.name().toLowerCase(Locale.ROOT).equals(word))
                .findFirst()
                .orElseThrow(() -> new IOException(podNet + " shows '" + word + "' as the packets that it drops"));
    }

    /**
     * Reverts {@link #unplug}: the node's end of the veth pair is up, in its bridge, the pod's packets pass, and its
     * addresses are announced once, as the peers need them.
     *
     * @param cables the program that was started for it, if there is one
     */
    void plug(PodRecord pod, Path network, Optional<PodCables> cables) throws IOException {
        List<String> words = Command.words("plug %s %s %s %s", network, NETWORK_LINK, pod.link(), pod.bridge());
        words.addAll(pod.addresses().all());
        cable(cables, words);
    }

    private String cable(Optional<PodCables> cables, List<String> words) throws IOException {
        if (cables.isPresent()) {
            try {
                return cables.get().request(words);
            } catch (IOException e) {
                // A program of its own either does it, or shows the cause.
                LOG.info("{}; another one is started", e.getMessage());
            }
        }
        List<String> whole = new ArrayList<>(List.of(podNet.toString()));
        whole.addAll(words);
        return result(whole, LIMIT).requireOutput().strip();
    }

    /** Announces the addresses three times: an announcement may be lost. */
    void announce(PodRecord pod, Path network) throws IOException {
        List<String> words = Command.words("%s announce %s %s", podNet, network, NETWORK_LINK);
        words.addAll(pod.addresses().all());
        run(words);
    }

    /** Runs lines of sh(1) in a network. */
    Command.CommandResult inNetwork(Path network, List<String> lines) throws IOException {
        return result(Command.words("nsenter --net=%s -- sh -ec %s", network, String.join("\n", lines)), LIMIT);
    }

    /** Lists the sockets of a network namespace, each as ppmr-pod-net shows it. */
    List<String> sockets(long namespace) throws IOException {
        return list("look", namespace);
    }

    /** Lists the TCP connections of a network namespace that may leave it, each as ppmr-pod-net shows it. */
    List<String> connections(long namespace) throws IOException {
        return list("connections", namespace);
    }

    private List<String> list(String what, long namespace) throws IOException {
        return result(
                        Command.words("%s %s %s", podNet, what, namespace),
                        LIMIT,
                        command -> command.withOutputLimit(SOCKETS_BYTES))
                .requireOutput()
                .lines()
                .toList();
    }

    /** Returns true if the node itself has the address: it would not answer its own query. */
    boolean hasAddress(String address) throws IOException {
        return !result(List.of("ip", "-oneline", "address", "show", "to", address), LIMIT)
                .requireOutput()
                .isBlank();
    }

    /**
     * Returns, by address, the MAC addresses that answer for it on a bridge's network. Sends one query for all
     * addresses.
     */
    Map<String, Set<String>> whoHas(String bridge, Collection<String> addresses) throws IOException {
        List<String> words = new ArrayList<>(List.of(podNet.toString(), "query", bridge, Integer.toString(ASK_MS)));
        words.addAll(addresses);
        return result(words, LIMIT)
                .requireOutput()
                .lines()
                .map(line -> line.split(" ", 2))
                .collect(Collectors.groupingBy(
                        answer -> answer[0], Collectors.mapping(answer -> answer[1], Collectors.toSet())));
    }

    /**
     * Returns the file that refers to a pod's network namespace while the pod exists. A PID cannot refer to it, because
     * the user can end a process and start another one with the same PID.
     */
    static Path networkFile(Path folder) {
        return folder.resolve(NETWORK_FILE);
    }

    /** Returns the number of the namespace to which a file refers. */
    static long number(Path namespace) throws IOException {
        return (long) Files.getAttribute(namespace, "unix:ino");
    }

    /** Makes a pod's network namespace, its file, its address, and a veth pair that is down. */
    void makeNetwork(Path folder, PodRecord pod, PodTemplate template) throws IOException {
        disconnect(pod);
        Path file = Files.createFile(networkFile(folder));
        run("unshare --net=%s -- true", file);
        // A network interface inherits some of them when it is made.
        run("nsenter --net=%s -- sh -ec %s", file, String.join("\n", PodBundle.networkSettings(template)) + "\n:");
        run(
                "sh -c %s sh %s " + NETWORK_LINK + " %s %s %s",
                LAY,
                file,
                pod.addresses().mac(),
                template.network().mtu(),
                pod.link());
        Path batch = Files.write(folder.resolve("network"), inside(pod, template));
        run("nsenter --net=%s -- ip -batch %s", file, batch);
    }

    /** Binds a file to the network of a pod that an earlier release made. Does nothing if the file exists. */
    void adoptNetwork(Path folder, ProcessIdentity init, ProcessTable processes) throws IOException {
        Path file = networkFile(folder);
        if (Files.exists(file, LinkOption.NOFOLLOW_LINKS)) {
            return;
        }
        boolean adopted = false;
        Files.createFile(file);
        try {
            run("mount --bind /proc/%s/ns/net %s", init.pid(), file);
            // Checked last: so the PID belonged to this process when the namespace was looked up.
            adopted = processes.isAlive(init);
        } catch (IOException e) {
            if (processes.isAlive(init)) {
                throw e;
            }
        } finally {
            if (!adopted) {
                forgetNetwork(folder);
            }
        }
    }

    /** Removes the file of a namespace. The namespace ends with its last process. Idempotent. */
    void forgetNetwork(Path folder) throws IOException {
        Path file = networkFile(folder);
        if (Files.exists(file, LinkOption.NOFOLLOW_LINKS)) {
            boolean mounted = Files.readAllLines(Path.of("/proc/self/mountinfo"), StandardCharsets.ISO_8859_1).stream()
                    .anyMatch(line -> line.contains(" " + file + " "));
            if (mounted) {
                run("umount %s", file);
            }
            Files.delete(file);
        }
    }

    private boolean isThere(String link) throws IOException {
        return result(List.of("ip", "link", "show", "dev", link), LIMIT).succeeded();
    }

    /** Returns why pods cannot be connected to a bridge, or empty if they can. */
    Optional<String> whyNoBridge(String bridge) throws IOException {
        Command.CommandResult shown =
                result(List.of("ip", "-oneline", "link", "show", "dev", bridge, "type", "bridge"), LIMIT);
        return shown.succeeded() && !shown.output().isEmpty()
                ? Optional.empty()
                : Optional.of("there is no bridge " + bridge + " on this node");
    }

    private void run(List<String> words) throws IOException {
        result(words, LIMIT).requireOutput();
    }

    private void run(String line, Object... values) throws IOException {
        run(Command.words(line, values));
    }

    Command.CommandResult result(List<String> words, Duration limit) throws IOException {
        return result(words, limit, CommandStarter.OutputLimit.USUAL);
    }

    private Command.CommandResult result(List<String> words, Duration limit, CommandStarter.OutputLimit output)
            throws IOException {
        try {
            return starter.run(words, limit, output);
        } catch (CheckpointException e) {
            throw new IOException(e.getMessage(), e);
        }
    }
}
