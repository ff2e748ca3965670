package io.ppmr.checkpoint.limits;

import io.ppmr.checkpoint.sharing.Holder;
import io.ppmr.checkpoint.sharing.MemberCheck;
import io.ppmr.checkpoint.sharing.Refusal;
import io.ppmr.linux.BorrowedSocket;
import io.ppmr.linux.CannotBorrowException;
import io.ppmr.linux.LibC;
import io.ppmr.linux.MulticastGroups;
import io.ppmr.linux.MulticastGroups.Group;
import io.ppmr.linux.ProcFiles;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Finds sockets that are members of multicast groups, or send by an interface of the job's choice. CRIU writes neither.
 * The copy would no longer receive from its group, or send by another interface. The kernel lists the groups of a
 * network, and a query for each socket shows its membership. For one scan and one thread.
 */
final class GroupMemberships implements MemberCheck {
    private static final String SOCKET = "socket:[";
    private static final List<String> PROTOCOLS = List.of("UDP", "RAW", "PING");

    /** IP_MULTICAST_IF, IPV6_MULTICAST_IF, IP_UNICAST_IF and IPV6_UNICAST_IF, each with its level. */
    private static final int[][] INTERFACES = {{0, 32}, {41, 17}, {0, 50}, {41, 76}};

    private final long deadlineNs;
    /** SO_MEMINFO, which has nine numbers. The seventh is the memory of the socket's options. */
    private static final int SO_MEMINFO = 55;

    private static final int MEMORY_BYTES = 9 * Integer.BYTES;
    private static final int OPTIONS_OFFSET = 6 * Integer.BYTES;
    private static final Logger LOG = LoggerFactory.getLogger(GroupMemberships.class);

    private final Findings findings = new Findings();
    private final Map<String, List<Group>> groupsOf = new HashMap<>();

    /** @param deadlineNs end of the check, on the monotonic clock; users decide how many groups exist */
    GroupMemberships(long deadlineNs) {
        this.deadlineNs = deadlineNs;
    }

    @Override
    public void descriptor(Open open) throws IOException {
        if (!open.name().startsWith(SOCKET)) {
            return;
        }
        Optional<String> protocol = ProcFiles.socketProtocol(open.path());
        if (protocol.isEmpty() || PROTOCOLS.stream().noneMatch(protocol.get()::startsWith)) {
            return;
        }
        try (BorrowedSocket socket = BorrowedSocket.of(open.holder().pid(), open.number())) {
            Optional<String> why = why(open.holder(), socket);
            if (why.isPresent()) {
                findings.add(
                        open.holder(),
                        open + ", a socket of " + protocol.get() + " that " + why.get()
                                + ", and CRIU does not write that",
                        "have the job leave its groups, or close the socket, in its suspend hook, and join them"
                                + " again in its resumed hook");
            }
        } catch (CannotBorrowException e) {
            LOG.debug("memberships in multicast groups are left out: {}", e.getMessage());
        } catch (IOException e) {
            if (ProcFiles.link(open.path()).filter(open.name()::equals).isPresent()) {
                throw e;
            }
        }
    }

    private Optional<String> why(Holder member, BorrowedSocket socket) throws IOException {
        for (int[] option : INTERFACES) {
            byte[] value = new byte[Integer.BYTES];
            if (socket.option(option[0], option[1], value) && !Arrays.equals(value, new byte[Integer.BYTES])) {
                return Optional.of("sends by an interface of its own choice");
            }
        }
        if (isMemberOfNone(socket)) {
            return Optional.empty();
        }
        for (Group group : groups(member)) {
            requireTime();
            if (group.hasMember(socket)) {
                return Optional.of("is a member of the multicast group " + group);
            }
        }
        return Optional.empty();
    }

    /**
     * Returns true for a socket without groups. Since Linux 4.12 memberships are charged to their socket, so the groups
     * of all users are mostly not read.
     */
    private static boolean isMemberOfNone(BorrowedSocket socket) {
        ByteBuffer memory = ByteBuffer.allocate(MEMORY_BYTES).order(ByteOrder.nativeOrder());
        return socket.option(LibC.SOCKET_LEVEL, SO_MEMINFO, memory.array()) && memory.getInt(OPTIONS_OFFSET) == 0;
    }

    private List<Group> groups(Holder member) throws IOException {
        String network = ProcFiles.link("/proc/" + member.pid() + "/ns/net").orElse("");
        List<Group> known = groupsOf.get(network);
        if (known == null) {
            known = MulticastGroups.of(member.pid());
            groupsOf.put(network, known);
        }
        return known;
    }

    private void requireTime() throws IOException {
        if (System.nanoTime() - deadlineNs > 0) {
            throw new IOException(
                    "the multicast groups of this node are too many to be checked for each socket in time");
        }
    }

    @Override
    public List<Refusal> refusals() {
        return findings.all();
    }
}
