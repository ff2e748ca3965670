package io.ppmr.transport.tcp;

import io.ppmr.protocol.data.FrameType;
import io.ppmr.protocol.data.Message;
import io.ppmr.transport.ControlLink;
import io.ppmr.transport.auth.ConnectionKind;
import io.ppmr.transport.auth.Handshake;
import io.ppmr.transport.auth.PeerAuthenticator;
import io.ppmr.transport.auth.SessionId;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.net.StandardSocketOptions;
import java.nio.channels.SocketChannel;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Supplier;

/** Opens the source's connections to one target, each connected and authenticated within a deadline. */
public final class Connector {
    private static final long POLL_MS = 100;

    private final InetSocketAddress target;
    private final PeerAuthenticator authenticator;
    private final Duration deadline;
    private final SocketAddress from;

    public Connector(InetSocketAddress target, PeerAuthenticator authenticator, Duration deadline) {
        this(target, authenticator, deadline, null);
    }

    /** @param from the address of this node that connections leave from; null for whatever the kernel chooses */
    public Connector(InetSocketAddress target, PeerAuthenticator authenticator, Duration deadline, SocketAddress from) {
        this.from = from;
        this.target = target;
        this.authenticator = authenticator;
        this.deadline = deadline;
    }

    /** A control connection and the session that it opened. */
    public static final class Control {
        private final SocketChannel channel;
        private final SessionId session;
        private final byte[] secret;

        private Control(SocketChannel channel, SessionId session, byte[] secret) {
            this.channel = channel;
            this.session = session;
            this.secret = secret;
        }

        public SocketChannel channel() {
            return channel;
        }

        public SessionId session() {
            return session;
        }
    }

    public Control control() throws IOException {
        SocketChannel channel = connect();
        try {
            Handshake handshake = handshake(channel);
            SessionId session = handshake.asSource(ConnectionKind.CONTROL, SessionId.NONE);
            return new Control(channel, session, handshake.secret());
        } catch (IOException e) {
            channel.close();
            throw e;
        }
    }

    /**
     * A connection in the place of a session's control connection.
     *
     * @param first the one that has opened the session: its secret proves that this is the same source
     * @throws io.ppmr.transport.auth.RefusedException if the target answers and has no such session
     */
    public SocketChannel controlAgain(Control first) throws IOException {
        SocketChannel channel = connect();
        try {
            handshake(channel).asSourceAgain(first.session, first.secret);
            return channel;
        } catch (IOException e) {
            channel.close();
            throw e;
        }
    }

    /**
     * Asks the target something over a control connection of its own, and gives the answer.
     *
     * @param question made when everything is connected
     * @param messages reads the answer
     * @param limit for the answer
     */
    public Message ask(Supplier<Message> question, Message.Reader messages, Duration limit) throws IOException {
        Message[] answer = new Message[1];
        try (ControlLink link = new ControlLink(control().channel(), 1, limit.toNanos())) {
            link.send(question.get());
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
        }
        if (answer[0] == null) {
            throw new IOException("target " + target + " does not answer");
        }
        return answer[0];
    }

    /** The data connections of a session; all or none. */
    public List<SocketChannel> data(SessionId session, int count) throws IOException {
        List<SocketChannel> channels = new ArrayList<>();
        try {
            for (int i = 0; i < count; i++) {
                SocketChannel channel = connect();
                channels.add(channel);
                handshake(channel).asSource(ConnectionKind.DATA, session);
            }
            return channels;
        } catch (IOException e) {
            for (SocketChannel channel : channels) {
                channel.close();
            }
            throw e;
        }
    }

    /** Returns the address that it connects to. */
    InetSocketAddress target() {
        return target;
    }

    @Override
    public String toString() {
        return from == null ? String.valueOf(target) : from + " to " + target;
    }

    private Handshake handshake(SocketChannel channel) {
        return new Handshake(channel, authenticator, System.nanoTime() + deadline.toNanos());
    }

    private SocketChannel connect() throws IOException {
        if (target.isUnresolved()) {
            throw new IOException("target host " + target.getHostString() + " is not known: check its name and the "
                    + "name service of this node");
        }
        SocketChannel channel = SocketChannel.open();
        try {
            channel.setOption(StandardSocketOptions.TCP_NODELAY, true);
            channel.setOption(StandardSocketOptions.SO_KEEPALIVE, true);
            channel.bind(from);
            channel.socket().connect(target, (int) deadline.toMillis());
            return channel;
        } catch (IOException e) {
            channel.close();
            throw new IOException(
                    "target " + target + " cannot be reached: " + e.getMessage()
                            + " (is its ppmr service running, and the port open?)",
                    e);
        }
    }
}
