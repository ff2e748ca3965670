package io.ppmr.pods;

import io.ppmr.linux.Command;
import io.ppmr.linux.Ipv4Address;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Keeps TCP's timers from backing off while no peer can answer. nftables(8) drops the packets that leave a pod's
 * network before the link. So TCP notices the drop: it retries every 0.5 s and does not count the probe as lost.
 *
 * <p>Packets between a pod's own processes are dropped for the same time. The kernel sends packets for stopped
 * processes, and CRIU dumps the two ends of a connection one after the other. A packet sent in between would be in
 * neither image. At the restore, CRIU writes a socket's unsent data into the socket. The kernel may send that before
 * the other end exists, which resets the connection.
 *
 * <p>It is immutable and safe for any thread. One caller works on one network at a time.
 *
 * @param runtime runs the programs
 */
record PodQuiet(PodRuntime runtime) {
    private static final Logger LOG = LoggerFactory.getLogger(PodQuiet.class);
    /** The name of the mark in a pod's folder, while its whole network is, or may be, muted. */
    private static final String MARK = "quiet";

    /** The prefix of the names of tables for one address that is away. */
    private static final String AWAY = "ppmr-away-";

    private static final String LINK = PodRuntime.NETWORK_LINK;
    private static final String HOOK = " { type filter hook egress device \"" + LINK + "\" priority 0; policy ";
    /** Without nf_tables. Packets in the kernel's queue still arrive. */
    private static final List<String> CLOSE_INSIDE = List.of("tc qdisc replace dev lo root pfifo limit 0");

    private static final String OPEN_INSIDE =
            "tc qdisc delete dev lo root || if tc qdisc show dev lo | grep -q 'limit 0p'; then exit 1; fi";
    /** The content of the mark if the loopback was closed by tc. */
    private static final String CLOSED = "closed";

    /** Removes the tables of addresses whose leases ended. Their sets are empty. */
    private static final String SWEEP = "for table in $(nft list tables netdev | sed -n 's/^table netdev \\(" + AWAY
            + "[0-9a-f]*\\)$/\\1/p'); do if ! nft list set netdev \"$table\" away | grep -q expires; then"
            + " nft delete table netdev \"$table\"; fi; done";

    /** Returns words that create a table again, in one transaction. */
    private static String fresh(String table) {
        return "add table netdev " + table + "; delete table netdev " + table + "; add table netdev " + table;
    }

    /** Returns true if nftables(8) is on this node. */
    boolean isPossible() throws IOException {
        return runtime.result(List.of("sh", "-c", "command -v nft"), PodRuntime.LIMIT)
                .succeeded();
    }

    // ---- a pod that is held ------------------------------------------------------------------------------------

    /**
     * Drops the packets that leave a pod's network, and those between its processes, as far as this node can. The log
     * names what this node cannot do.
     */
    void mute(Path folder, PodRecord pod, Path network) throws IOException {
        mark(folder);
        complete(folder, pod, network, runtime.dropPackets(network));
    }

    /** Does the same, and pulls the pod's virtual cable out, if possible by the program that was started for it. */
    void unplug(Path folder, PodRecord pod, Path network, Optional<PodCables> cables) throws IOException {
        mark(folder);
        complete(folder, pod, network, runtime.unplug(pod, network, cables));
    }

    private static void mark(Path folder) throws IOException {
        Path mark = folder.resolve(MARK);
        if (!Files.exists(mark, LinkOption.NOFOLLOW_LINKS)) {
            Files.createFile(mark);
        }
    }

    private void complete(Path folder, PodRecord pod, Path network, PodRuntime.DroppedPackets dropped)
            throws IOException {
        if (dropped == PodRuntime.DroppedPackets.ALL) {
            return;
        }
        LOG.warn(
                "pod {}: its connections may take longer to continue: the kernel cannot drop the packets that leave it"
                        + " (needs netdev egress of nf_tables, Linux 5.16)",
                pod.fullName());
        if (dropped == PodRuntime.DroppedPackets.INSIDE) {
            return;
        }
        Files.writeString(folder.resolve(MARK), CLOSED);
        Command.CommandResult closed = runtime.inNetwork(network, CLOSE_INSIDE);
        if (!closed.succeeded()) {
            LOG.warn(
                    "pod {}: connections between its own processes may break: {} (needs nf_tables of the kernel, or tc"
                            + " of package iproute2)",
                    pod.fullName(),
                    closed.describe());
        }
    }

    /** Plugs the virtual cable in, and reverts {@link #mute} and {@link #unplug}. */
    void plug(Path folder, PodRecord pod, Path network, Optional<PodCables> cables) throws IOException {
        Path mark = folder.resolve(MARK);
        boolean isMarked = Files.exists(mark, LinkOption.NOFOLLOW_LINKS);
        if (isMarked && Files.readString(mark).equals(CLOSED)) {
            runtime.inNetwork(network, List.of(OPEN_INSIDE)).requireOutput();
        }
        runtime.plug(pod, network, cables);
        Files.deleteIfExists(mark);
    }

    // ---- a peer of one that is held ----------------------------------------------------------------------------

    /**
     * Drops the packets to an address that is away, and to its IPv6 address, for a time that the kernel ends. A further
     * call starts the time again.
     *
     * @param address6 the IPv6 address, or empty if that pod has none
     * @param mac the MAC address, or empty if the address is not in this pod's network
     */
    void muteTowards(PodRecord pod, Path network, Ipv4Address address, String address6, String mac, Duration limit)
            throws IOException {
        String table = AWAY + address.bytes("%02x", "");
        boolean both = !address6.isEmpty() && !pod.addresses().address6().isEmpty();
        List<String> commands = new ArrayList<>();
        commands.add("nft '" + fresh(table) + "; add chain netdev " + table + " out" + HOOK + "accept; }; "
                + drop(table, "away", "ipv4_addr", "ip", address.toString(), limit)
                + (both ? "; " + drop(table, "away6", "ipv6_addr", "ip6", address6, limit) : "") + "'");
        if (!mac.isEmpty()) {
            // Without a confirmation the kernel queries again, so this entry expires if the service ends.
            String reachable = " lladdr " + mac + " nud reachable dev " + LINK;
            commands.add("ip neighbour replace " + address + reachable);
            if (both) {
                commands.add("ip neighbour replace " + address6 + reachable);
            }
        }
        runtime.inNetwork(network, commands).requireOutput();
    }

    private static String drop(String table, String set, String type, String protocol, String address, Duration limit) {
        return "add set netdev " + table + " " + set + " { type " + type + "; flags timeout; }; add element netdev "
                + table
                + " " + set + " { " + address + " timeout " + limit.toMillis() + "ms }; add rule netdev " + table
                + " out " + protocol + " daddr @" + set + " drop";
    }

    /** Ends that. */
    void unmuteTowards(Path network, Ipv4Address address) throws IOException {
        String table = AWAY + address.bytes("%02x", "");
        runtime.inNetwork(network, List.of("nft 'add table netdev " + table + "; delete table netdev " + table + "'"))
                .requireOutput();
    }

    /** Removes the tables of a crashed service whose leases the kernel ended. */
    void sweep(Path network) throws IOException {
        runtime.inNetwork(network, List.of(SWEEP)).requireOutput();
    }
}
