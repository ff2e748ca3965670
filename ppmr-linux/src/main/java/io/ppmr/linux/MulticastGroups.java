package io.ppmr.linux;

import java.io.IOException;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Set;

/**
 * The multicast groups that sockets of a network namespace joined, from {@code /proc/PID/net/igmp} and {@code igmp6}.
 * The kernel lists them by interface. {@link Group#hasMember} queries the membership of one socket. Stateless, for any
 * thread.
 */
public final class MulticastGroups {
    private static final int MOST_BYTES = 16 << 20;
    private static final int HEX = 16;
    private static final int IPV4_HEX = 8;
    private static final int GROUP_FIELD = 2;

    /** Groups that every interface joins without a socket: RFC 1112, RFC 4291. */
    private static final Set<String> OF_INTERFACES = Set.of("224.0.0.1", "ff02:0:0:0:0:0:0:1", "ff01:0:0:0:0:0:0:1");

    private static final String SOLICITED = "ff02:0:0:0:0:1:ff";

    private MulticastGroups() {}

    /**
     * A group at an interface. Immutable.
     *
     * @param address the group's address
     * @param interfaceIndex the number of the interface
     */
    public record Group(InetAddress address, int interfaceIndex) {
        private static final int IP_LEVEL = 0;
        private static final int IPV6_LEVEL = 41;
        private static final int SOURCE_FILTER = 48;
        private static final int ADDRESS_OFFSET = 8;
        private static final int IPV4_OFFSET = ADDRESS_OFFSET + 4;
        private static final int IPV6_OFFSET = ADDRESS_OFFSET + 8;
        /** A {@code struct group_filter} with room for one source. */
        private static final int FILTER_BYTES = 272;

        private static final int IPV4_BYTES = 4;
        private static final short INTERNET_6 = 10;

        /** Returns true if a socket is a member: the kernel returns the filter of sources only for a member. */
        public boolean hasMember(BorrowedSocket socket) {
            byte[] group = address.getAddress();
            boolean is4 = group.length == IPV4_BYTES;
            ByteBuffer filter = ByteBuffer.allocate(FILTER_BYTES).order(ByteOrder.nativeOrder());
            filter.putInt(0, interfaceIndex);
            filter.putShort(ADDRESS_OFFSET, is4 ? (short) LibC.INTERNET : INTERNET_6);
            filter.position(is4 ? IPV4_OFFSET : IPV6_OFFSET).put(group);
            return socket.option(is4 ? IP_LEVEL : IPV6_LEVEL, SOURCE_FILTER, filter.array());
        }

        @Override
        public String toString() {
            return address.getHostAddress();
        }
    }

    /** Returns the groups of a process's network namespace; none if the process ended. */
    public static List<Group> of(int pid) throws IOException {
        List<Group> groups = new ArrayList<>();
        addIpv4(ProcFiles.text("/proc/" + pid + "/net/igmp", MOST_BYTES).orElse(""), groups);
        addIpv6(ProcFiles.text("/proc/" + pid + "/net/igmp6", MOST_BYTES).orElse(""), groups);
        return groups;
    }

    /** A line of an interface begins with its number. The lines of its groups follow and begin with a tabulator. */
    static void addIpv4(String text, List<Group> groups) throws IOException {
        int interfaceIndex = 0;
        for (String line : text.split("\n", -1)) {
            String[] words = line.strip().split("\\s+", 2);
            if (line.startsWith("\t") && words[0].length() == IPV4_HEX) {
                // The kernel prints the address as a number in this machine's byte order.
                byte[] address = ByteBuffer.allocate(Integer.BYTES)
                        .order(ByteOrder.nativeOrder())
                        .putInt(Integer.parseUnsignedInt(words[0], HEX))
                        .array();
                add(address, interfaceIndex, groups);
            } else if (words[0].matches("\\d{1,9}")) {
                interfaceIndex = Integer.parseInt(words[0]);
            }
        }
    }

    /** Each line has the number of an interface, its name, and a group. */
    static void addIpv6(String text, List<Group> groups) throws IOException {
        for (String line : text.split("\n", -1)) {
            String[] words = line.strip().split("\\s+", -1);
            if (words.length > GROUP_FIELD
                    && words[0].matches("\\d{1,9}")
                    && words[GROUP_FIELD].matches("[0-9a-f]{32}")) {
                add(HexFormat.of().parseHex(words[GROUP_FIELD]), Integer.parseInt(words[0]), groups);
            }
        }
    }

    private static void add(byte[] bytes, int interfaceIndex, List<Group> groups) throws UnknownHostException {
        InetAddress address = InetAddress.getByAddress(bytes);
        String shown = address.getHostAddress();
        if (!OF_INTERFACES.contains(shown) && !shown.startsWith(SOLICITED)) {
            groups.add(new Group(address, interfaceIndex));
        }
    }
}
