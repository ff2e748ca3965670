package io.ppmr.daemon.config;

import io.ppmr.daemon.config.file.ConfigFile;
import io.ppmr.daemon.config.file.ConfigSection;
import io.ppmr.daemon.config.file.ConfigSection.ConfigKey;
import io.ppmr.daemon.config.file.ValueType;
import io.ppmr.transport.RailSettings;
import io.ppmr.transport.tcp.RailReceiver;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;

/** The keys of the rails in both roles' files, and how they are read. */
final class RailConfig {
    private static final int MAX_RAILS = 16;
    private static final int MAX_PRIORITY = 1000;

    /** By what a rail's bytes travel. */
    enum Way {
        TCP,
        RDMA
    }

    /** The keys of a rail at a source. */
    static final ConfigSection OF_SOURCE =
            ConfigSection.once("[rails]", "A network by which chunks travel, once for each.");

    private static final ConfigKey<String> NAME =
            OF_SOURCE.required("name", ValueType.TEXT, "of the network, the same on both nodes");
    private static final ConfigKey<InetAddress> FROM = OF_SOURCE.optional(
            "address",
            ValueType.OWN_ADDRESS,
            "this node's address on it, which its connections leave from; without it, what the kernel chooses");
    private static final ConfigKey<Way> TRANSPORT = OF_SOURCE.withDefault(
            "transport",
            ValueType.choice(Way.class),
            "tcp",
            "by what its bytes travel, the same on both nodes; over rdma the source writes, whatever transport"
                    + " and transport_mode say of sessions without rails");
    private static final ConfigKey<Integer> PRIORITY = OF_SOURCE.withDefault(
            "priority",
            ValueType.number(0, MAX_PRIORITY),
            0L,
            "chunks go to the rails that work with the highest priority, each to the one with most room; the others"
                    + " stand in for them");
    private static final ConfigKey<Long> MIN = OF_SOURCE.withDefault(
            "min",
            ValueType.SIZE,
            "0",
            "the smallest piece that it is used for; a smaller one takes another rail, where one works");

    /** The keys of a rail at a target. */
    static final ConfigSection OF_TARGET =
            ConfigSection.once("[rails]", "A network by which chunks travel, once for each.");

    private static final ConfigKey<String> NAME_THERE = OF_TARGET.add(NAME);
    private static final ConfigKey<InetSocketAddress> LISTEN = OF_TARGET.required(
            "address", ValueType.ADDRESS, "where its connections come to: this node's address on it, and a port");
    private static final ConfigKey<Way> TRANSPORT_THERE = OF_TARGET.add(TRANSPORT);

    private RailConfig() {}

    /** The rails of a source's file. */
    static List<RailSettings> ofSource(ConfigFile.Section top) {
        List<RailSettings> rails = new ArrayList<>();
        Set<String> names = new HashSet<>();
        for (ConfigFile.Section entry : top.tables(ServiceConfig.RAILS, OF_SOURCE)) {
            boolean direct = entry.get(TRANSPORT) == Way.RDMA;
            String name = name(entry, NAME, names);
            InetAddress from = entry.get(FROM);
            int priority = entry.get(PRIORITY);
            long min = entry.get(MIN);
            if (name != null) {
                rails.add(new RailSettings(
                        name,
                        Optional.ofNullable(from).map(address -> new InetSocketAddress(address, 0)),
                        direct,
                        priority,
                        (int) Math.min(min, Integer.MAX_VALUE)));
            }
        }
        requireFew(top, rails);
        return rails;
    }

    /** The rails of a target's file. */
    static List<RailSettings> ofTarget(ConfigFile.Section top) {
        List<RailSettings> rails = new ArrayList<>();
        Set<String> names = new HashSet<>();
        for (ConfigFile.Section entry : top.tables(ServiceConfig.RAILS, OF_TARGET)) {
            boolean direct = entry.get(TRANSPORT_THERE) == Way.RDMA;
            String name = name(entry, NAME_THERE, names);
            InetSocketAddress listen = entry.get(LISTEN);
            boolean isAny = listen != null
                    && !listen.isUnresolved()
                    && listen.getAddress().isAnyLocalAddress();
            if (isAny) {
                entry.bad(
                        LISTEN,
                        "stands for every address, and sources must be told one: name this node's on that network");
            } else if (name != null && listen != null) {
                rails.add(new RailSettings(name, Optional.of(listen), direct, 0, 0));
            }
        }
        requireFew(top, rails);
        return rails;
    }

    private static String name(ConfigFile.Section entry, ConfigKey<String> key, Set<String> names) {
        String name = entry.get(key);
        if (name != null && (name.isBlank() || !names.add(name))) {
            entry.bad(
                    key,
                    "'" + name + "' " + (name.isBlank() ? "is no name" : "stands there twice")
                            + ": give each rail a name of its own, the same on both nodes");
        }
        return name;
    }

    private static void requireFew(ConfigFile.Section top, List<RailSettings> rails) {
        if (rails.size() > MAX_RAILS) {
            top.bad(ServiceConfig.RAILS, "has " + rails.size() + " rails; a node has at most " + MAX_RAILS);
        }
    }

    /** Reports more connections than a session takes. */
    static void requireFewConnections(ConfigFile.Section top, List<RailSettings> rails, int connectionsEach) {
        if (rails.size() * connectionsEach > RailReceiver.MOST_CONNECTIONS) {
            top.bad(
                    ServiceConfig.RAILS,
                    "has " + rails.size() + " rails with " + connectionsEach + " connections each; all together"
                            + " may have " + RailReceiver.MOST_CONNECTIONS + ": lower target.connections");
        }
    }
}
