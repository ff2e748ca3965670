package io.ppmr.checkpoint;

import java.io.BufferedReader;
import java.io.IOException;
import java.util.BitSet;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/**
 * The sockets of a rank in Internet protocols, from the kernel's tables of all sockets of a network namespace. The
 * tables are the files of {@code /proc/PID/net}, see tcp(7) and Documentation/networking/proc_net_tcp.rst. They also
 * have any number of other users' sockets, which are not kept. For one thread, and one scan.
 */
final class InternetSockets {
    /** The tables that have columns for the state and the inode of each socket. */
    static final List<String> PROTOCOLS = List.of("tcp", "tcp6", "udp", "udp6", "udplite", "udplite6", "raw", "raw6");

    private static final int ADDRESS = 1;
    private static final int STATE = 3;
    private static final int QUEUES = 4;
    private static final int USER = 7;
    private static final int INODE = 9;
    private static final int FIELDS = 10;

    private static final int HEX = 16;
    private static final int PORTS = 1 << 16;
    private static final int CLOSED = 0x07;
    private static final int LISTENS = 0x0A;

    private final Set<Long> wanted;
    private final int uid;
    private final Map<Long, Socket> sockets = new HashMap<>();
    private final BitSet connectedPorts = new BitSet(PORTS);
    private final int[] starts = new int[FIELDS];
    private final int[] ends = new int[FIELDS];

    /**
     * A socket of the rank.
     *
     * @param protocol name of its table
     * @param state state from the kernel's list of TCP's states
     * @param port its own port
     * @param waiting whether connections wait there to be accepted
     */
    record Socket(String protocol, int state, int port, boolean waiting) {
        /** Returns whether it is a connection, or becomes or was one. CRIU treats all these states as connected. */
        boolean isConnected() {
            return protocol.startsWith("tcp") && state != CLOSED && state != LISTENS;
        }

        boolean listens() {
            return protocol.startsWith("tcp") && state == LISTENS;
        }

        /** Returns the protocol's name for people. */
        String shown() {
            return protocol.toUpperCase(Locale.ROOT);
        }
    }

    /**
     * @param wanted the inodes of the rank's sockets
     *
     * @param uid the rank's user
     */
    InternetSockets(Set<Long> wanted, int uid) {
        this.wanted = Set.copyOf(wanted);
        this.uid = uid;
    }

    /**
     * Reads one of the tables.
     *
     * @param protocol its name
     * @throws IOException if the row of one of the rank's sockets is invalid, or the time is over
     */
    void read(String protocol, BufferedReader table, ScanDeadline deadline) throws IOException {
        for (String line = table.readLine(); line != null; line = table.readLine()) {
            deadline.require("the table of sockets /proc/net/" + protocol);
            if (split(line)) {
                add(protocol, line);
            }
        }
    }

    /**
     * Finds the fields of a row. Returns false if it has too few. Millions of rows are read, so it uses no regular
     * expression.
     */
    private boolean split(String line) {
        int at = 0;
        for (int field = 0; field < FIELDS; field++) {
            while (at < line.length() && line.charAt(at) == ' ') {
                at++;
            }
            starts[field] = at;
            while (at < line.length() && line.charAt(at) != ' ') {
                at++;
            }
            ends[field] = at;
            if (starts[field] == at) {
                return false;
            }
        }
        return true;
    }

    private void add(String protocol, String line) throws IOException {
        // The first line, with the columns' names, has no inode.
        long inode = number(line, starts[INODE], ends[INODE], 10);
        boolean ours = inode > 0 && wanted.contains(inode);
        // A socket without a process has inode 0, for example after a close.
        boolean users = inode > 0 && number(line, starts[USER], ends[USER], 10) == Integer.toUnsignedLong(uid);
        if (!ours && !users) {
            return;
        }
        int colon = line.lastIndexOf(':', ends[ADDRESS] - 1);
        long port = colon < starts[ADDRESS] ? -1 : number(line, colon + 1, ends[ADDRESS], HEX);
        long state = number(line, starts[STATE], ends[STATE], HEX);
        boolean understood = port >= 0 && port < PORTS && state > 0 && state <= Byte.MAX_VALUE;
        if (ours && !understood) {
            throw new IOException("the row of socket " + inode + " in /proc/net/" + protocol
                    + " has an unknown format: '" + line.strip() + "'");
        }
        if (!understood) {
            return;
        }
        String queues = line.substring(starts[QUEUES], ends[QUEUES]);
        Socket socket = new Socket(protocol, (int) state, (int) port, !queues.endsWith(":00000000"));
        if (ours) {
            sockets.put(inode, socket);
        }
        if (users && socket.isConnected()) {
            connectedPorts.set(socket.port());
        }
    }

    /** Returns a number without a sign, or -1 if there is none, or it has more than 60 bits. */
    private static long number(String line, int from, int to, int radix) {
        if (to - from > 15 || from == to) {
            return -1;
        }
        long number = 0;
        for (int at = from; at < to; at++) {
            int digit = Character.digit(line.charAt(at), radix);
            if (digit < 0) {
                return -1;
            }
            number = number * radix + digit;
        }
        return number;
    }

    /** Returns one of the rank's sockets, or empty if it is in no Internet protocol, or was closed. */
    Optional<Socket> of(long inode) {
        return Optional.ofNullable(sockets.get(inode));
    }

    /**
     * Returns whether the rank's user has a connection at the port of a listening socket. If connections last for less
     * than a millisecond, there is always one, but the scan of the descriptors finds another.
     */
    boolean hasAccepted(Socket socket) {
        return socket.listens() && connectedPorts.get(socket.port());
    }
}
