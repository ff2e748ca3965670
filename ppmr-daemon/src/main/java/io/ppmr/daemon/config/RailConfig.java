package io.ppmr.daemon.config;

import io.ppmr.daemon.config.file.ConfigFile;
import io.ppmr.linux.config.Key;
import io.ppmr.linux.config.Section;
import io.ppmr.transport.RailSettings;
import io.ppmr.transport.tcp.RailReceiver;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;

/** The keys of the rails in the files of both roles, and their reader. */
final class RailConfig {
    private static final int MAX_RAILS = 16;

    /** The transport of a rail. */
    enum Way {
        TCP,
        RDMA
    }

    /** The keys that a rail has on both nodes. */
    record Network(
            @Key(doc = "the name of the network, the same on both nodes", example = "ib0")
            String name,

            @Key(
                    value = "tcp",
                    doc = "the transport of its bytes, the same on both nodes. With rdma the source writes,"
                            + " whatever transport and transport_mode are for sessions without rails",
                    example = "rdma")
            Way transport) {}

    @Section(doc = "A network that carries chunks; one section for each.")
    record SourceRail(
            Network network,

            @Key(
                    doc = "this node's address on the network, from which connections are made. Default: the kernel"
                            + " chooses",
                    example = "10.1.0.1")
            Optional<InetAddress> address,

            @Key(
                    value = "0",
                    doc = "of the working rails, those with the highest priority carry the chunks. Each chunk goes"
                            + " to the rail with most room. Rails of a lower priority are used if those fail",
                    example = "10",
                    most = 1000)
            int priority,

            @Key(
                    value = "0",
                    doc = "the smallest piece that the rail carries. A smaller piece goes to another rail, if one"
                            + " works",
                    example = "64k")
            long minPiece) {}

    @Section(doc = "A network that carries chunks; one section for each.")
    record TargetRail(
            Network network,

            @Key(doc = "the address and the port of this node to which sources connect", example = "10.1.0.2:7412")
            InetSocketAddress address) {}

    private RailConfig() {}

    /** Returns the rails of a source's file. */
    static List<RailSettings> ofSource(ConfigFile.FileSection<?> top) {
        List<RailSettings> rails = new ArrayList<>();
        Set<String> names = new HashSet<>();
        for (ConfigFile.FileSection<SourceRail> entry : top.entries(SourceRail.class)) {
            SourceRail rail = entry.values();
            if (hasName(entry, rail.network(), names)) {
                rails.add(new RailSettings(
                        rail.network().name(),
                        rail.address().map(address -> new InetSocketAddress(address, 0)),
                        rail.network().transport() == Way.RDMA,
                        rail.priority(),
                        (int) Math.min(rail.minPiece(), Integer.MAX_VALUE)));
            }
        }
        requireFew(top, rails);
        return rails;
    }

    /** Returns the rails of a target's file. */
    static List<RailSettings> ofTarget(ConfigFile.FileSection<?> top) {
        List<RailSettings> rails = new ArrayList<>();
        Set<String> names = new HashSet<>();
        for (ConfigFile.FileSection<TargetRail> entry : top.entries(TargetRail.class)) {
            Network network = entry.values().network();
            InetSocketAddress listen = entry.values().address();
            boolean hasName = hasName(entry, network, names);
            boolean isAny = listen != null
                    && !listen.isUnresolved()
                    && listen.getAddress().isAnyLocalAddress();
            if (isAny) {
                entry.bad(
                        "address",
                        "stands for every address, and sources need one address: name this node's on that network");
            } else if (hasName && listen != null) {
                rails.add(new RailSettings(network.name(), Optional.of(listen), network.transport() == Way.RDMA, 0, 0));
            }
        }
        requireFew(top, rails);
        return rails;
    }

    /** Returns true if the rail has a name. Reports a bad name. */
    private static boolean hasName(ConfigFile.FileSection<?> entry, Network network, Set<String> names) {
        String name = network.name();
        if (name != null && (name.isBlank() || !names.add(name))) {
            entry.bad(
                    "name",
                    "'" + name + "' " + (name.isBlank() ? "is no name" : "stands there twice")
                            + ": give each rail a name of its own, the same on both nodes");
        }
        return name != null;
    }

    private static void requireFew(ConfigFile.FileSection<?> top, List<RailSettings> rails) {
        if (rails.size() > MAX_RAILS) {
            top.bad("rails", "has " + rails.size() + " rails; a node has at most " + MAX_RAILS);
        }
    }

    /** Reports more connections than a session may have. */
    static void requireFewConnections(ConfigFile.FileSection<?> top, List<RailSettings> rails, int connectionsEach) {
        if (rails.size() * connectionsEach > RailReceiver.MAX_CONNECTIONS) {
            top.bad(
                    "rails",
                    "has " + rails.size() + " rails with " + connectionsEach + " connections each; all together"
                            + " may have " + RailReceiver.MAX_CONNECTIONS + ": lower target.connections");
        }
    }
}
