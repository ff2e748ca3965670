package io.ppmr.transport.listen;

import java.net.Inet6Address;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.function.LongSupplier;

/**
 * The places of unauthenticated connections. A new connection always gets a place: if all are taken the oldest is
 * closed, and if those of its address are taken the oldest of that address. So an idle connection keeps a place only
 * while no other connection needs it, and a peer that speaks at once gets through, from the attacker's own address,
 * too. Who is known leaves, and counts no more. For one thread.
 *
 * @param <T> a connection
 */
final class UnauthenticatedConnections<T> {
    private static final int IPV6_NETWORK_BYTES = 8;

    private record Place(Object address, long endNs) {}

    private final int most;
    private final int mostOfAnAddress;
    private final long limitNs;
    private final LongSupplier clockNs;
    /** The oldest first. */
    private final LinkedHashMap<T, Place> places = new LinkedHashMap<>();

    private final Map<Object, Integer> addresses = new HashMap<>();

    /**
     * Makes an empty set.
     *
     * @param most how many places there are
     * @param mostOfAnAddress how many of them one address gets
     * @param limitNs how long a place can be held
     */
    UnauthenticatedConnections(int most, int mostOfAnAddress, long limitNs, LongSupplier clockNs) {
        this.most = most;
        this.mostOfAnAddress = mostOfAnAddress;
        this.limitNs = limitNs;
        this.clockNs = clockNs;
    }

    /** Gives what counts as one address: of IPv6 the network, as a host there can take any address of it. */
    static Object addressOf(SocketAddress remote) {
        if (!(remote instanceof InetSocketAddress internet)) {
            return "local";
        }
        InetAddress address = internet.getAddress();
        return address instanceof Inet6Address
                ? ByteBuffer.wrap(Arrays.copyOf(address.getAddress(), IPV6_NETWORK_BYTES))
                : address;
    }

    /** Adds a connection. Returns the one that lost its place for it. */
    Optional<T> enter(T connection, Object address) {
        Optional<T> goes = Optional.empty();
        if (addresses.getOrDefault(address, 0) >= mostOfAnAddress) {
            goes = places.entrySet().stream()
                    .filter(place -> place.getValue().address().equals(address))
                    .map(Map.Entry::getKey)
                    .findFirst();
        } else if (places.size() >= most) {
            goes = oldest();
        }
        goes.ifPresent(this::leave);
        places.put(connection, new Place(address, clockNs.getAsLong() + limitNs));
        addresses.merge(address, 1, Integer::sum);
        return goes;
    }

    /** Frees a place, if it is held. */
    void leave(T one) {
        Place place = places.remove(one);
        if (place != null) {
            addresses.computeIfPresent(place.address(), (address, count) -> count == 1 ? null : count - 1);
        }
    }

    /** Gives the one who has been here longest. */
    Optional<T> oldest() {
        return places.keySet().stream().findFirst();
    }

    /** The oldest, if its time is over. */
    Optional<T> overdue() {
        return untilOverdueNs() <= 0 ? oldest() : Optional.empty();
    }

    /** Gives the time until the oldest's is over; {@link Long#MAX_VALUE} if there is none. */
    long untilOverdueNs() {
        return places.isEmpty()
                ? Long.MAX_VALUE
                : places.values().iterator().next().endNs() - clockNs.getAsLong();
    }

    int size() {
        return places.size();
    }
}
