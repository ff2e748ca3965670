package io.ppmr.checkpoint.limits;

import io.ppmr.checkpoint.sharing.MemberCheck;
import io.ppmr.checkpoint.sharing.Refusal;
import io.ppmr.linux.BorrowedSocket;
import io.ppmr.linux.CannotBorrowException;
import io.ppmr.linux.ProcFiles;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.NetworkInterface;
import java.net.SocketException;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;

/**
 * Finds sockets that are bound to an address of an interface of this node. Their copies would be bound to the same
 * address, which another node does not have. This includes connected sockets, and TCP sockets after a reset. Addresses
 * of the loopback interface exist on any node. Not for pods, whose address moves with them. For one scan and one
 * thread.
 */
final class BoundSockets implements MemberCheck {
    private static final String SOCKET = "socket:[";
    private static final List<String> PROTOCOLS = List.of("TCP", "UDP");

    private final Findings findings = new Findings();
    private Optional<Set<InetAddress>> ofNode = Optional.empty();

    @Override
    public void descriptor(Open open) throws IOException {
        if (!open.name().startsWith(SOCKET)) {
            return;
        }
        Optional<String> protocol = ProcFiles.socketProtocol(open.path());
        if (protocol.isEmpty() || PROTOCOLS.stream().noneMatch(protocol.get()::startsWith)) {
            return;
        }
        Optional<InetSocketAddress> bound = boundTo(open);
        if (bound.isPresent() && isOfThisNode(bound.get().getAddress())) {
            String address = bound.get().getAddress().getHostAddress() + " port "
                    + bound.get().getPort();
            findings.add(
                    open.holder(),
                    open + ", a socket of " + protocol.get() + " that is bound to " + address
                            + ", an address of this node, which the target does not have",
                    "have the job bind it to no address (0.0.0.0 or ::), or close it, in its suspend hook if need"
                            + " be; or run the job in a pod, whose address moves with it");
        }
    }

    /** Returns the bound address, or empty if there is none, or the socket was closed in the meantime. */
    private static Optional<InetSocketAddress> boundTo(Open open) throws IOException {
        try (BorrowedSocket socket = BorrowedSocket.of(open.holder().pid(), open.number())) {
            return socket.localAddress()
                    .filter(address -> !address.getAddress().isAnyLocalAddress()
                            && !address.getAddress().isLoopbackAddress());
        } catch (CannotBorrowException e) {
            // In this case CRIU finds it, at the target.
            return Optional.empty();
        } catch (IOException e) {
            if (ProcFiles.link(open.path()).filter(open.name()::equals).isEmpty()) {
                return Optional.empty();
            }
            throw e;
        }
    }

    private boolean isOfThisNode(InetAddress address) throws SocketException {
        if (ofNode.isEmpty()) {
            Set<InetAddress> found = new HashSet<>();
            for (NetworkInterface one : Collections.list(NetworkInterface.getNetworkInterfaces())) {
                if (!one.isLoopback()) {
                    found.addAll(Collections.list(one.getInetAddresses()));
                }
            }
            ofNode = Optional.of(found);
        }
        return ofNode.get().contains(address);
    }

    @Override
    public List<Refusal> refusals() {
        return findings.all();
    }
}
