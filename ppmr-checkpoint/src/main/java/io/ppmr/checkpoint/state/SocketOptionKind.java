package io.ppmr.checkpoint.state;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * An option of sockets that CRIU leaves out, socket(7), ip(7), ipv6(7), tcp(7), udp(7), netlink(7), packet(7).
 * Immutable.
 *
 * @param level the protocol's number
 * @param number the option's number
 * @param of sockets that have it
 * @param bytes maximum size of its value
 */
record SocketOptionKind(int level, int number, Of of, int bytes) {
    /** The sockets that have an option. */
    enum Of {
        ANY,
        INTERNET,
        INTERNET_6,
        /** Internet sockets that are no streams. A stream shows its peer's value, and takes none. */
        INTERNET_NO_STREAM,
        INTERNET_6_NO_STREAM,
        TCP,
        /** TCP sockets without a connection. For connections the value belongs to the connection. */
        TCP_APART,
        UDP,
        NETLINK,
        PACKET
    }

    private static final int SOCKET = 1;
    private static final int IP = 0;
    private static final int IPV6 = 41;
    private static final int TCP_LEVEL = 6;
    private static final int UDP_LEVEL = 17;
    private static final int NETLINK_LEVEL = 270;
    private static final int PACKET_LEVEL = 263;
    private static final int IP_OPTIONS_BYTES = 40;
    /** Maximum size of a header, so that all four fit a line. No copy gets a longer header, which the log reports. */
    private static final int HEADER_BYTES = 1024;

    private static final int NAME_BYTES = 16;
    private static final int CONGESTION = 13;

    /** All options, in the order in which they are set. */
    static final List<SocketOptionKind> ALL = all();

    private static final Map<String, SocketOptionKind> BY_NAME = byName();

    private static List<SocketOptionKind> all() {
        List<SocketOptionKind> all = new ArrayList<>();
        // SO_DEBUG, SO_TIMESTAMP, _TIMESTAMPNS, _TIMESTAMPING and their later forms; SO_RXQ_OVFL, SO_WIFI_STATUS,
        // SO_PEEK_OFF, SO_NOFCS, SO_SELECT_ERR_QUEUE, SO_BUSY_POLL, SO_MAX_PACING_RATE, SO_ZEROCOPY,
        // SO_PREFER_BUSY_POLL, SO_TXREHASH, SO_RCVMARK, SO_PASSPIDFD, SO_RCVPRIORITY, SO_PASSRIGHTS.
        add(all, SOCKET, Of.ANY, 1, 29, 35, 37, 63, 64, 65, 40, 41, 42, 43, 45, 46, 47, 60, 69, 74, 75, 76, 82, 83);
        // IP_TOS, _TTL and _PKTINFO, which CRIU leaves out only for IPv6 sockets; IP_ROUTER_ALERT, _RECVOPTS, _RETOPTS,
        // _MTU_DISCOVER, _RECVERR, _RECVTTL, _RECVTOS, _PASSSEC, _TRANSPARENT, _RECVORIGDSTADDR, _MINTTL, _NODEFRAG,
        // _CHECKSUM, _BIND_ADDRESS_NO_PORT, _RECVFRAGSIZE, _RECVERR_RFC4884, _MULTICAST_LOOP, _MULTICAST_ALL,
        // _LOCAL_PORT_RANGE.
        add(all, IP, Of.INTERNET, 1, 2, 8, 5, 6, 7, 10, 11, 12, 13, 18, 19, 20, 21, 22, 23, 24, 25, 26, 34, 49, 51);
        // IP_MULTICAST_TTL, IPV6_MULTICAST_HOPS.
        add(all, IP, Of.INTERNET_NO_STREAM, 33);
        add(all, IPV6, Of.INTERNET_6_NO_STREAM, 18);
        // IP_OPTIONS.
        all.add(new SocketOptionKind(IP, 4, Of.INTERNET, IP_OPTIONS_BYTES));
        // IPV6_2292PKTINFO, _2292HOPOPTS, _2292DSTOPTS, _2292RTHDR, _2292HOPLIMIT, _FLOWINFO, _UNICAST_HOPS,
        // _MULTICAST_LOOP, _MTU_DISCOVER, _RECVERR, _MULTICAST_ALL, _ROUTER_ALERT_ISOLATE,
        // _RECVERR_RFC4884, _FLOWINFO_SEND, _RECVHOPLIMIT, _RECVHOPOPTS, _RECVRTHDR, _RECVDSTOPTS, _RECVPATHMTU,
        // _DONTFRAG, _RECVTCLASS, _TCLASS, _AUTOFLOWLABEL, _ADDR_PREFERENCES, _MINHOPCOUNT, _RECVORIGDSTADDR,
        // _TRANSPARENT, _RECVFRAGSIZE.
        add(
                all,
                IPV6,
                Of.INTERNET_6,
                2,
                3,
                4,
                5,
                8,
                11,
                16,
                19,
                23,
                25,
                29,
                30,
                31,
                33,
                51,
                53,
                56,
                58,
                60,
                62,
                66,
                67,
                70,
                72,
                73,
                74,
                75,
                77);
        // IPV6_HOPOPTS, _RTHDRDSTOPTS, _RTHDR, _DSTOPTS, the headers of each packet.
        for (int header : new int[] {54, 55, 57, 59}) {
            all.add(new SocketOptionKind(IPV6, header, Of.INTERNET_6, HEADER_BYTES));
        }
        // TCP_SYNCNT, _LINGER2, _DEFER_ACCEPT, _THIN_LINEAR_TIMEOUTS, _USER_TIMEOUT, _FASTOPEN, _NOTSENT_LOWAT,
        // _SAVE_SYN, _FASTOPEN_NO_COOKIE, _INQ, _TX_DELAY, _RTO_MAX_MS, _RTO_MIN_US, _DELACK_MAX_US.
        add(all, TCP_LEVEL, Of.TCP, 7, 8, 9, 16, 18, 23, 25, 27, 34, 36, 37, 44, 45, 46);
        // TCP_MAXSEG, _WINDOW_CLAMP, _FASTOPEN_CONNECT.
        add(all, TCP_LEVEL, Of.TCP_APART, 2, 10, 30);
        all.add(new SocketOptionKind(TCP_LEVEL, CONGESTION, Of.TCP, NAME_BYTES));
        // UDP_NO_CHECK6_TX, _RX, UDP_SEGMENT, UDP_GRO.
        add(all, UDP_LEVEL, Of.UDP, 101, 102, 103, 104);
        // NETLINK_PKTINFO, _BROADCAST_ERROR, _NO_ENOBUFS, _LISTEN_ALL_NSID, _CAP_ACK, _EXT_ACK, _GET_STRICT_CHK.
        add(all, NETLINK_LEVEL, Of.NETLINK, 3, 4, 5, 8, 10, 11, 12);
        // PACKET_TX_HAS_OFF, _QDISC_BYPASS, _IGNORE_OUTGOING.
        add(all, PACKET_LEVEL, Of.PACKET, 19, 20, 23);
        // SO_LOCK_FILTER. From then on the filter that CRIU has set cannot be changed.
        add(all, SOCKET, Of.ANY, 44);
        return Collections.unmodifiableList(all);
    }

    private static void add(List<SocketOptionKind> to, int level, Of of, int... numbers) {
        for (int number : numbers) {
            to.add(new SocketOptionKind(level, number, of, Integer.BYTES));
        }
    }

    private static Map<String, SocketOptionKind> byName() {
        Map<String, SocketOptionKind> names = new TreeMap<>();
        ALL.forEach(option -> names.put(option.name(), option));
        return names;
    }

    /** Returns its level and number: {@code 6/18}. */
    String name() {
        return level + "/" + number;
    }

    /** Returns true if a value can have this length, because a number must be complete. */
    boolean canHave(int length) {
        return bytes == Integer.BYTES ? length == bytes : length <= bytes;
    }

    /** Returns the option of that name, or null if it is unknown or not moved. */
    static SocketOptionKind named(String name) {
        return BY_NAME.get(name);
    }
}
