package io.ppmr.transport.listen;

import java.net.Inet6Address;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.LongSupplier;

/**
 * The limited places of unauthenticated connections. A new connection always gets a place. If all are in use the oldest
 * connection is closed, and if those of its address are in use the oldest of that address. So an idle connection keeps
 * a place only while no other connection needs it. A peer that authenticates at once succeeds, even from the attacker's
 * own address. A connection that has shown the key stays, since its peer would repeat a handshake that is half done.
 * That does not hold if half of all have shown it: a host that repeats recorded bytes can do so, too. An authenticated
 * connection is removed and no longer counts. For one thread.
 *
 * @param <T> a connection
 */
final class UnauthenticatedConnections<T> {
    private static final int IPV6_NETWORK_BYTES = 8;

    private record Entry(Object address, long endNs) {}

    private final int most;
    private final int mostOfAnAddress;
    private final long limitNs;
    private final LongSupplier clockNs;
    /** The oldest first. */
    private final LinkedHashMap<T, Entry> connections = new LinkedHashMap<>();

    private final Map<Object, Integer> addresses = new HashMap<>();
    /** Those of the connections that have shown the key. */
    private final Set<T> proved = new HashSet<>();

    /**
     * Creates an empty set.
     *
     * @param most the number of places
     * @param mostOfAnAddress the number of places for one address
     * @param limitNs the maximum time for which a connection may have a place
     */
    UnauthenticatedConnections(int most, int mostOfAnAddress, long limitNs, LongSupplier clockNs) {
        this.most = most;
        this.mostOfAnAddress = mostOfAnAddress;
        this.limitNs = limitNs;
        this.clockNs = clockNs;
    }

    /** Returns the key that counts as one address: for IPv6 the network, because a host can use any address in it. */
    static Object addressOf(SocketAddress remote) {
        if (!(remote instanceof InetSocketAddress internet)) {
            return "local";
        }
        InetAddress address = internet.getAddress();
        return address instanceof Inet6Address
                ? ByteBuffer.wrap(Arrays.copyOf(address.getAddress(), IPV6_NETWORK_BYTES))
                : address;
    }

    /** Adds a connection, and returns the connection that must be closed for it. */
    Optional<T> add(T connection, Object address) {
        Optional<T> evicted = Optional.empty();
        if (addresses.getOrDefault(address, 0) >= mostOfAnAddress) {
            evicted = oldestOf(address, !hasManyProved()).or(() -> oldestOf(address, false));
        } else if (connections.size() >= most) {
            evicted = hasManyProved() ? oldest() : oldestWithoutKey();
        }
        evicted.ifPresent(this::remove);
        connections.put(connection, new Entry(address, clockNs.getAsLong() + limitNs));
        addresses.merge(address, 1, Integer::sum);
        return evicted;
    }

    private Optional<T> oldestOf(Object address, boolean isWithoutKey) {
        return connections.entrySet().stream()
                .filter(entry -> entry.getValue().address().equals(address))
                .map(Map.Entry::getKey)
                .filter(one -> !isWithoutKey || !proved.contains(one))
                .findFirst();
    }

    private Optional<T> oldestWithoutKey() {
        return connections.keySet().stream()
                .filter(one -> !proved.contains(one))
                .findFirst();
    }

    /** Notes that a connection has shown the key. */
    void prove(T connection) {
        if (connections.containsKey(connection)) {
            proved.add(connection);
        }
    }

    /** Returns true if half of the places have connections that have shown the key. */
    boolean hasManyProved() {
        return proved.size() >= most / 2;
    }

    /** Removes a connection, if it is present. */
    void remove(T connection) {
        proved.remove(connection);
        Entry entry = connections.remove(connection);
        if (entry != null) {
            addresses.computeIfPresent(entry.address(), (address, count) -> count == 1 ? null : count - 1);
        }
    }

    /** Returns the oldest connection. */
    Optional<T> oldest() {
        return connections.keySet().stream().findFirst();
    }

    /** Returns the oldest connection if its time is over. */
    Optional<T> overdue() {
        return untilOverdueNs() <= 0 ? oldest() : Optional.empty();
    }

    /** Returns the time until the oldest connection is overdue; {@link Long#MAX_VALUE} if there is none. */
    long untilOverdueNs() {
        return connections.isEmpty()
                ? Long.MAX_VALUE
                : connections.values().iterator().next().endNs() - clockNs.getAsLong();
    }

    int size() {
        return connections.size();
    }
}
