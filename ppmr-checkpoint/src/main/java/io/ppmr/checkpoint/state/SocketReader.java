package io.ppmr.checkpoint.state;

import io.ppmr.checkpoint.state.SocketOptionKind.Of;
import io.ppmr.linux.BorrowedSocket;
import io.ppmr.linux.CannotBorrowException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Reads the options of a rank's sockets that differ from those of a new socket. One new socket of each kind is made for
 * the comparison. For one rank and one thread.
 */
public final class SocketReader {
    private static final Logger LOG = LoggerFactory.getLogger(SocketReader.class);

    private static final int SOCKET = 1;
    private static final int TYPE = 3;
    private static final int PROTOCOL = 38;
    private static final int DOMAIN = 39;
    private static final int UNIX = 1;
    private static final int INTERNET = 2;
    private static final int INTERNET_6 = 10;
    private static final int NETLINK = 16;
    private static final int PACKET = 17;
    /** The families of sockets that have options, and that CRIU writes. */
    private static final Set<Integer> FAMILIES = Set.of(UNIX, INTERNET, INTERNET_6, NETLINK, PACKET);

    /** SOCK_STREAM. */
    private static final int STREAM = 1;

    private static final int TCP = 6;
    private static final int UDP = 17;
    private static final int TCP_INFO = 11;
    private static final int TCP_CLOSED = 7;
    private static final int TCP_LISTENS = 10;

    private final Set<Long> seen = new HashSet<>();
    private final Map<Kind, Map<String, String>> usual = new HashMap<>();

    /** A kind of sockets with the same options. */
    private record Kind(int domain, int type, int protocol, boolean connected) {
        /** Returns true for Internet families. Others have their own numbers for protocols. */
        private boolean isInternet() {
            return domain == INTERNET || domain == INTERNET_6;
        }

        boolean has(Of of) {
            return switch (of) {
                case ANY -> true;
                case INTERNET -> isInternet();
                case INTERNET_6 -> domain == SocketReader.INTERNET_6;
                case INTERNET_NO_STREAM -> isInternet() && type != STREAM;
                case INTERNET_6_NO_STREAM -> domain == SocketReader.INTERNET_6 && type != STREAM;
                case TCP -> isInternet() && protocol == SocketReader.TCP;
                case TCP_APART -> isInternet() && protocol == SocketReader.TCP && !connected;
                case UDP -> isInternet() && protocol == SocketReader.UDP;
                case NETLINK -> domain == SocketReader.NETLINK;
                case PACKET -> domain == SocketReader.PACKET;
            };
        }
    }

    /**
     * Reads a socket's options, or empty if all are default, or if the same socket was read before.
     *
     * @param process its process, in this service's PID namespace
     * @param id its process, in that process's own PID namespace
     * @param descriptor its descriptor in the process
     * @param inode the socket's number
     */
    public Optional<SocketSettings> read(int process, int id, int descriptor, long inode) throws IOException {
        if (!seen.add(inode)) {
            return Optional.empty();
        }
        try (BorrowedSocket socket = BorrowedSocket.of(process, descriptor)) {
            Kind kind = kind(socket);
            if (!FAMILIES.contains(kind.domain())) {
                return Optional.empty();
            }
            Map<String, String> values = values(socket, kind);
            values.entrySet().removeAll(usual(kind, values).entrySet());
            return values.isEmpty() ? Optional.empty() : Optional.of(new SocketSettings(id, descriptor, values));
        } catch (CannotBorrowException e) {
            // Its copy has CRIU's options, as on any kernel before Linux 5.6.
            LOG.debug("the options of sockets are not read: {}", e.getMessage());
            return Optional.empty();
        }
    }

    private static Kind kind(BorrowedSocket socket) {
        int protocol = number(socket, PROTOCOL);
        int domain = number(socket, DOMAIN);
        byte[] state = new byte[1];
        boolean connected = protocol == TCP
                && (domain == INTERNET || domain == INTERNET_6)
                && socket.option(TCP, TCP_INFO, state)
                && state[0] != TCP_CLOSED
                && state[0] != TCP_LISTENS;
        return new Kind(domain, number(socket, TYPE), protocol, connected);
    }

    private static int number(BorrowedSocket socket, int option) {
        ByteBuffer value = ByteBuffer.allocate(Integer.BYTES).order(ByteOrder.nativeOrder());
        return socket.option(SOCKET, option, value.array()) ? value.getInt(0) : -1;
    }

    /**
     * Returns the values of a new socket. If this service may not make one of that kind, it returns the found values.
     */
    private Map<String, String> usual(Kind kind, Map<String, String> found) {
        Map<String, String> known = usual.get(kind);
        if (known == null) {
            try (BorrowedSocket fresh = BorrowedSocket.fresh(kind.domain(), kind.type(), kind.protocol())) {
                known = values(fresh, kind);
            } catch (IOException e) {
                LOG.debug("the options of sockets of that kind are not read: {}", e.getMessage());
                return Map.copyOf(found);
            }
            usual.put(kind, known);
        }
        return known;
    }

    private static Map<String, String> values(BorrowedSocket socket, Kind kind) {
        Map<String, String> values = new LinkedHashMap<>();
        for (SocketOptionKind option : SocketOptionKind.ALL) {
            if (kind.has(option.of())) {
                socket.value(option.level(), option.number(), option.bytes())
                        .filter(value -> option.canHave(value.length))
                        .ifPresent(value ->
                                values.put(option.name(), HexFormat.of().formatHex(value)));
            }
        }
        return values;
    }
}
