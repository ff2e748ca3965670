package io.ppmr.checkpoint.state;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * An option of sockets that CRIU leaves out, socket(7), ip(7), ipv6(7), tcp(7), udp(7). Immutable.
 *
 * @param level the protocol's number
 * @param number the option's
 * @param of which sockets have it
 * @param bytes of its value
 */
record SocketOption(int level, int number, Of of, int bytes) {
    /** Says which sockets have an option. */
    enum Of {
        ANY,
        INTERNET,
        INTERNET_6,
        TCP,
        /** TCP sockets that are no connections: of these the value is the connection's own. */
        TCP_APART,
        UDP
    }

    private static final int SOCKET = 1;
    private static final int IP = 0;
    private static final int IPV6 = 41;
    private static final int TCP_LEVEL = 6;
    private static final int UDP_LEVEL = 17;
    private static final int NAME_BYTES = 16;
    private static final int CONGESTION = 13;

    /** All of them, in the order in which they are set. */
    static final List<SocketOption> ALL = all();

    private static final Map<String, SocketOption> BY_NAME = byName();

    private static List<SocketOption> all() {
        List<SocketOption> all = new ArrayList<>();
        // SO_TIMESTAMP, _TIMESTAMPNS, _TIMESTAMPING and their later forms; SO_RXQ_OVFL, SO_PEEK_OFF,
        // SO_SELECT_ERR_QUEUE, SO_BUSY_POLL, SO_MAX_PACING_RATE, SO_ZEROCOPY, SO_PREFER_BUSY_POLL.
        add(all, SOCKET, Of.ANY, 29, 35, 37, 63, 64, 65, 40, 42, 45, 46, 47, 60, 69);
        // IP_RECVOPTS, _RETOPTS, _MTU_DISCOVER, _RECVERR, _RECVTTL, _RECVTOS, _RECVORIGDSTADDR, _MINTTL, _NODEFRAG,
        // _CHECKSUM, _BIND_ADDRESS_NO_PORT, _RECVFRAGSIZE, _MULTICAST_TTL, _MULTICAST_LOOP, _MULTICAST_ALL,
        // _LOCAL_PORT_RANGE.
        add(all, IP, Of.INTERNET, 6, 7, 10, 11, 12, 13, 20, 21, 22, 23, 24, 25, 33, 34, 49, 51);
        // IPV6_UNICAST_HOPS, _MULTICAST_HOPS, _MULTICAST_LOOP, _MTU_DISCOVER, _RECVERR, _MULTICAST_ALL,
        // _RECVHOPLIMIT, _DONTFRAG, _RECVTCLASS, _TCLASS, _AUTOFLOWLABEL, _ADDR_PREFERENCES, _MINHOPCOUNT,
        // _RECVORIGDSTADDR.
        add(all, IPV6, Of.INTERNET_6, 16, 18, 19, 23, 25, 29, 51, 62, 66, 67, 70, 72, 73, 74);
        // TCP_SYNCNT, _LINGER2, _DEFER_ACCEPT, _USER_TIMEOUT, _FASTOPEN, _NOTSENT_LOWAT, _SAVE_SYN, _INQ.
        add(all, TCP_LEVEL, Of.TCP, 7, 8, 9, 18, 23, 25, 27, 36);
        // TCP_MAXSEG, _WINDOW_CLAMP, _FASTOPEN_CONNECT.
        add(all, TCP_LEVEL, Of.TCP_APART, 2, 10, 30);
        all.add(new SocketOption(TCP_LEVEL, CONGESTION, Of.TCP, NAME_BYTES));
        // UDP_NO_CHECK6_TX, _RX, UDP_SEGMENT, UDP_GRO.
        add(all, UDP_LEVEL, Of.UDP, 101, 102, 103, 104);
        return Collections.unmodifiableList(all);
    }

    private static void add(List<SocketOption> to, int level, Of of, int... numbers) {
        for (int number : numbers) {
            to.add(new SocketOption(level, number, of, Integer.BYTES));
        }
    }

    private static Map<String, SocketOption> byName() {
        Map<String, SocketOption> names = new TreeMap<>();
        ALL.forEach(option -> names.put(option.name(), option));
        return names;
    }

    /** Its level and number: {@code 6/18}. */
    String name() {
        return level + "/" + number;
    }

    /** Returns the option of that name; null if it is none that is moved. */
    static SocketOption named(String name) {
        return BY_NAME.get(name);
    }
}
