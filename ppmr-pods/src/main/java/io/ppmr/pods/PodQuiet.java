package io.ppmr.pods;

import io.ppmr.os.Command;
import io.ppmr.os.Ipv4Address;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Keeps TCP's timers from backing off while no peer can answer: what leaves a pod's network is dropped there by
 * nftables(8), before the link, so that the sender hears of it and tries again each half second, however often, without
 * counting it as a peer's silence.
 *
 * <p>Packets between a pod's own processes are dropped as long. The kernel sends for processes that are stopped, and
 * CRIU takes the two ends of a connection one after the other: a packet that comes in between would be in neither. At
 * its restore it gives a socket what was not sent yet, and the kernel sends that, perhaps before the other end is
 * there, which resets the connection.
 *
 * <p>Immutable, for any thread; one caller works on one network at a time.
 *
 * @param runtime runs the programs
 */
record PodQuiet(PodRuntime runtime) {
    private static final Logger LOG = LoggerFactory.getLogger(PodQuiet.class);
    /** In the folder of a pod, while its whole network is quiet, or may be. */
    private static final String MARK = "quiet";

    private static final String WHOLE = "ppmr-hold";
    /** The beginning of the names of tables for one address that is away. */
    private static final String AWAY = "ppmr-away-";

    private static final String LINK = PodRuntime.NETWORK_LINK;
    private static final String HOOK = egress(LINK) + "policy ";
    /** Packets that are on their way wait in the kernel's queue, and would come in. */
    private static final String INSIDE = "; add chain netdev " + WHOLE
            + " arrives { type filter hook ingress device \"lo\" priority 0; policy drop; }";
    /**
     * A sender that asks for a neighbour's MAC address while the cable is out gets no answer, and what waits for that
     * is not dropped, as far as its sender knows. Without ARP each neighbour is taken to be there.
     */
    private static final List<String> MUTE = List.of(
            "nft '" + fresh(WHOLE) + "; add chain netdev " + WHOLE + " out" + HOOK + "drop; }; add chain netdev "
                    + WHOLE + " inside" + egress("lo") + "policy drop; }" + INSIDE + "'",
            "ip link set dev " + LINK + " arp off");
    /** The same of the loopback alone, for kernels without netdev egress. */
    private static final List<String> MUTE_INSIDE = List.of("nft '" + fresh(WHOLE) + INSIDE + "'");
    /** The same without nftables; packets that are on their way come in. */
    private static final List<String> CLOSE_INSIDE = List.of("tc qdisc replace dev lo root pfifo limit 0");

    private static final String OPEN_INSIDE =
            "tc qdisc delete dev lo root || if tc qdisc show dev lo | grep -q 'limit 0p'; then exit 1; fi";
    /** In the mark, where the loopback was closed that way. */
    private static final String CLOSED = "closed";
    /** ARP comes last, as its questions would be dropped; the kernel forgets the neighbours then. */
    private static final List<String> UNMUTE = List.of(
            "\"$1\" wait " + LINK,
            "nft 'add table netdev " + WHOLE + "; delete table netdev " + WHOLE + "' || if nft list table netdev "
                    + WHOLE + "; then exit 1; fi",
            "ip link set dev " + LINK + " arp on");

    /** Tables for addresses that are away, whose time is over: nothing is in their sets. */
    private static final String SWEEP = "for table in $(nft list tables netdev | sed -n 's/^table netdev \\(" + AWAY
            + "[0-9a-f]*\\)$/\\1/p'); do if ! nft list set netdev \"$table\" away | grep -q expires; then"
            + " nft delete table netdev \"$table\"; fi; done";

    private static String egress(String link) {
        return " { type filter hook egress device \"" + link + "\" priority 0; ";
    }

    /** Begins a table again; nothing happens between the words of one transaction. */
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
     * Has nothing leave a pod's network, nor go from one of its processes to another, as far as this node can; the log
     * says what it cannot.
     */
    void mute(Path folder, PodRecord pod, Path network) throws IOException {
        Path mark = folder.resolve(MARK);
        if (!Files.exists(mark, LinkOption.NOFOLLOW_LINKS)) {
            Files.createFile(mark);
        }
        Command.CommandResult muted = runtime.inNetwork(network, MUTE);
        if (muted.succeeded()) {
            return;
        }
        LOG.warn(
                "pod {}: its connections may take longer to continue: {}",
                pod.fullName(),
                isPossible()
                        ? muted.describe() + " (needs netdev egress of nf_tables, Linux 5.16)"
                        : "there is no nft on this node (package nftables)");
        if (runtime.inNetwork(network, MUTE_INSIDE).succeeded()) {
            return;
        }
        Files.writeString(mark, CLOSED);
        Command.CommandResult closed = runtime.inNetwork(network, CLOSE_INSIDE);
        if (!closed.succeeded()) {
            LOG.warn(
                    "pod {}: connections between its own processes may break: {} (needs nft of package nftables, or tc"
                            + " of package iproute2)",
                    pod.fullName(),
                    closed.describe());
        }
    }

    /** Ends that, once the cable is in. */
    void unmute(Path folder, Path network) throws IOException {
        Path mark = folder.resolve(MARK);
        if (Files.exists(mark, LinkOption.NOFOLLOW_LINKS)) {
            List<String> commands = new ArrayList<>(UNMUTE);
            if (Files.readString(mark).equals(CLOSED)) {
                commands.add(OPEN_INSIDE);
            }
            runtime.inNetwork(network, commands).requireOutput();
            Files.delete(mark);
        }
    }

    // ---- a peer of one that is held ----------------------------------------------------------------------------

    /**
     * Has nothing leave for an address that is away, nor for the IPv6 address that goes with it, for a time that the
     * kernel itself ends; again, for a time from now on.
     *
     * @param address6 empty where the pod of that address has none
     * @param mac what the address has; empty where it is not in this pod's network
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
            // The kernel asks again by itself without a confirmation, so this ends, too, if the service ends.
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

    /** Takes away what a service that died has left, and the kernel has ended. */
    void sweep(Path network) throws IOException {
        runtime.inNetwork(network, List.of(SWEEP)).requireOutput();
    }
}
