package io.ppmr.transport.tcp;

import io.ppmr.protocol.data.FrameType;
import io.ppmr.protocol.data.Message;
import io.ppmr.protocol.data.ProtocolVersion;
import io.ppmr.transport.ControlLink;
import io.ppmr.transport.auth.ConnectionKind;
import io.ppmr.transport.auth.ConnectionProof;
import io.ppmr.transport.auth.Encryption;
import io.ppmr.transport.auth.Handshake;
import io.ppmr.transport.auth.PeerAuthenticator;
import io.ppmr.transport.auth.PeerConnection;
import io.ppmr.transport.auth.SessionId;
import io.ppmr.transport.auth.SessionKeys;
import io.ppmr.transport.auth.TlsHandshake;
import java.io.Closeable;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.net.UnknownHostException;
import java.nio.channels.SocketChannel;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.function.Supplier;

/**
 * Opens the source's connections to one target, each connected and authenticated within a deadline. The target's name
 * is looked up for each connection. All its addresses are tried, beginning with the one that responded last. Any
 * thread.
 */
public final class Connector {
    private static final long POLL_MS = 100;

    /** Looks up a name; throws if it is unknown. */
    @FunctionalInterface
    interface NameService {
        InetAddress[] addresses(String host) throws UnknownHostException;
    }

    private final InetSocketAddress target;
    private final NameService names;
    private volatile InetSocketAddress reached;
    private final PeerAuthenticator authenticator;
    private final Duration deadline;
    private final SocketAddress from;

    public Connector(InetSocketAddress target, PeerAuthenticator authenticator, Duration deadline) {
        this(target, authenticator, deadline, null);
    }

    /** @param from this node's address for the connections; null to let the kernel choose */
    public Connector(InetSocketAddress target, PeerAuthenticator authenticator, Duration deadline, SocketAddress from) {
        this(target, authenticator, deadline, from, InetAddress::getAllByName);
    }

    Connector(
            InetSocketAddress target,
            PeerAuthenticator authenticator,
            Duration deadline,
            SocketAddress from,
            NameService names) {
        this.names = names;
        this.from = from;
        this.target = target;
        this.authenticator = authenticator;
        this.deadline = deadline;
    }

    /** A control connection and the session that it opened. */
    public static final class Control {
        private final PeerConnection channel;
        private final SessionKeys keys;

        private Control(PeerConnection channel, SessionKeys keys) {
            this.channel = channel;
            this.keys = keys;
        }

        public PeerConnection channel() {
            return channel;
        }

        public SessionId session() {
            return keys.session();
        }

        /** Returns what both ends of the session have in common. */
        public SessionKeys keys() {
            return keys;
        }

        /** Returns the version of the protocol that both ends agreed on. */
        public ProtocolVersion version() {
            return keys.version();
        }
    }

    public Control control() throws IOException {
        SocketChannel channel = connect();
        try {
            if (authenticator.encryption() == Encryption.OFF) {
                Handshake handshake = handshake(channel, authenticator);
                SessionId session = handshake.asSource(ConnectionKind.CONTROL, SessionId.NONE);
                return new Control(new PeerConnection(channel), handshake.keys(authenticator, session));
            }
            TlsHandshake handshake = new TlsHandshake(channel, authenticator, deadlineNs());
            SessionKeys keys = handshake.open();
            return new Control(handshake.connection(), keys);
        } catch (IOException | RuntimeException e) {
            channel.close();
            throw e;
        }
    }

    /**
     * Opens a connection that replaces a session's control connection.
     *
     * @param first of the connection that opened the session: its secret proves that this is the same source
     * @throws io.ppmr.transport.auth.RefusedException if the target responds and has no such session
     */
    public PeerConnection resumeControl(SessionKeys first) throws IOException {
        SocketChannel channel = connect();
        try {
            if (authenticator.encryption() == Encryption.OFF) {
                handshake(channel, authenticator).resumeAsSource(first);
                return new PeerConnection(channel);
            }
            TlsHandshake handshake = new TlsHandshake(channel, authenticator, deadlineNs());
            handshake.resume(first);
            return handshake.connection();
        } catch (IOException | RuntimeException e) {
            channel.close();
            throw e;
        }
    }

    /**
     * Sends one request to the target over a separate control connection, and returns the answer.
     *
     * @param request created when the connection is open
     * @param messages reads the answer
     * @param limit for the answer
     */
    public Message request(Supplier<Message> request, Message.Reader messages, Duration limit) throws IOException {
        try (TargetRequests requests = connectForRequests(messages, limit)) {
            return requests.request(request, limit);
        }
    }

    /**
     * Connects for several requests.
     *
     * @param messages reads the answers
     * @param limit the silence limit of the connection
     */
    public TargetRequests connectForRequests(Message.Reader messages, Duration limit) throws IOException {
        Control control = control();
        return new TargetRequests(
                ControlLink.forQuestions(control.channel(), control.version(), 1, limit.toNanos()), messages);
    }

    /** Sends requests to a target, one after the other, over a separate control connection. Owned by one thread. */
    public final class TargetRequests implements Closeable {
        private final ControlLink link;
        private final Message.Reader messages;

        private TargetRequests(ControlLink link, Message.Reader messages) {
            this.link = link;
            this.messages = messages;
        }

        /**
         * Sends a request, and returns the answer.
         *
         * @param request created when the connection is open
         * @param limit for the answer
         */
        public Message request(Supplier<Message> request, Duration limit) throws IOException {
            Message[] answer = new Message[1];
            link.sendAllFromAgent(request.get());
            long deadlineNs = System.nanoTime() + limit.toNanos();
            while (answer[0] == null && System.nanoTime() - deadlineNs < 0) {
                link.doWork((type, buffer, offset, lengthBytes) -> {
                    if (type == FrameType.MESSAGE) {
                        answer[0] = messages.read(buffer, offset);
                    }
                });
                if (link.transmit() == 0 && answer[0] == null) {
                    link.prepareToSleep();
                    link.idle(POLL_MS);
                }
            }
            if (answer[0] == null) {
                throw new IOException("target " + target + " does not respond");
            }
            return answer[0];
        }

        @Override
        public void close() {
            link.close();
        }
    }

    /** Opens the data connections of a session: all or none. */
    public List<SocketChannel> data(SessionKeys keys, int count) throws IOException {
        List<SocketChannel> channels = new ArrayList<>();
        try {
            for (int i = 0; i < count; i++) {
                SocketChannel channel = connect();
                channels.add(channel);
                handshake(channel, keys.proof()).asSource(ConnectionKind.DATA, keys.session());
            }
            return channels;
        } catch (IOException e) {
            for (SocketChannel channel : channels) {
                channel.close();
            }
            throw e;
        }
    }

    /** Returns the address that responded last, under the target's name; before that, the configured address. */
    public InetSocketAddress target() {
        InetSocketAddress responded = reached;
        return responded == null ? target : responded;
    }

    @Override
    public String toString() {
        return from == null ? String.valueOf(target) : from + " to " + target;
    }

    private Handshake handshake(SocketChannel channel, ConnectionProof proof) {
        return new Handshake(channel, proof, deadlineNs());
    }

    private long deadlineNs() {
        return System.nanoTime() + deadline.toNanos();
    }

    private SocketChannel connect() throws IOException {
        List<InetSocketAddress> addresses = addresses();
        try {
            SocketChannel channel = AddressRace.connect(addresses, from, deadline);
            InetAddress responded = ((InetSocketAddress) channel.getRemoteAddress()).getAddress();
            // A link-local address needs its interface, which an address with a name cannot contain.
            reached = new InetSocketAddress(
                    responded.isLinkLocalAddress()
                            ? responded
                            : InetAddress.getByAddress(target.getHostString(), responded.getAddress()),
                    target.getPort());
            return channel;
        } catch (IOException e) {
            throw new IOException(
                    "target " + target + " cannot be reached: " + e.getMessage()
                            + " (is its ppmr service running, and the port open?)",
                    e);
        }
    }

    private List<InetSocketAddress> addresses() throws IOException {
        Set<InetSocketAddress> addresses = new LinkedHashSet<>();
        if (!target().isUnresolved()) {
            addresses.add(target());
        }
        try {
            for (InetAddress address : names.addresses(target.getHostString())) {
                addresses.add(new InetSocketAddress(address, target.getPort()));
            }
        } catch (UnknownHostException e) {
            if (addresses.isEmpty()) {
                throw new IOException(
                        "target host " + target.getHostString() + " is unknown: check its name and the "
                                + "name service of this node",
                        e);
            }
        }
        return List.copyOf(addresses);
    }
}
