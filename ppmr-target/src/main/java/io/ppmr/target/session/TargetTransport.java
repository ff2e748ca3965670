package io.ppmr.target.session;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.protocol.data.DataMessage;
import io.ppmr.protocol.data.DataMessage.Attached;
import io.ppmr.protocol.data.Message;
import io.ppmr.transport.ChunkPuller;
import io.ppmr.transport.ControlLink;
import io.ppmr.transport.DirectListener;
import io.ppmr.transport.DirectPeer;
import io.ppmr.transport.MemoryProof;
import io.ppmr.transport.PullListener;
import io.ppmr.transport.SessionEvent;
import io.ppmr.transport.TransportChoice;
import io.ppmr.transport.auth.SessionId;
import io.ppmr.transport.listen.PeerListener;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.channels.SocketChannel;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * How the bytes of one session travel, seen from the target: it chooses among what the source offers and takes the
 * connections. Used by the control connection's thread.
 */
public final class TargetTransport {
    private static final Logger LOG = LoggerFactory.getLogger(TargetTransport.class);
    private static final Duration DATA_DEADLINE = Duration.ofSeconds(10);
    /** The source may try RDMA until its own deadline before it says what it has. */
    private static final Duration ATTACH_DEADLINE = Duration.ofSeconds(30);

    private final TransportChoice choice;
    private final PullerFactory pullers;

    public TargetTransport(TransportChoice choice, PullerFactory pullers) {
        this.choice = choice;
        this.pullers = pullers;
    }

    /** What came of a session's connections: makes its puller, or is given up. */
    public record Joined(Function<PullListener, ChunkPuller> maker, DirectPeer peer, List<SocketChannel> data)
            implements AutoCloseable {
        /** Closes what has no puller. */
        @Override
        public void close() throws IOException {
            if (peer != null) {
                peer.close();
            }
            for (SocketChannel channel : data) {
                channel.close();
            }
        }
    }

    /** How the bytes travelled last, or may travel, and why. Any thread. */
    public String state() {
        return choice.state();
    }

    /**
     * Why there is no transport that both nodes may use; null if there is one.
     *
     * @param sourceMay how the bytes may travel for the source, {@link TransportChoice#OVER_TCP} and others
     */
    public String refusal(int sourceMay) {
        boolean sourceTcp = (sourceMay & TransportChoice.OVER_TCP) != 0;
        boolean sourceRdma = (sourceMay & TransportChoice.OVER_RDMA) != 0;
        String whyNot = choice.whyNot();
        if (!sourceTcp && (!sourceRdma || whyNot != null)) {
            return "it must use RDMA, and this node cannot: " + whyNot;
        }
        if (!choice.wish().allowsTcp() && !sourceRdma) {
            return "this node's configuration allows RDMA alone, which the source cannot use";
        }
        return null;
    }

    /** Takes the session's connections. */
    public Joined join(
            int sourceMay,
            int dataConnections,
            BufferPool pool,
            SessionId session,
            SocketChannel control,
            ControlLink link,
            BlockingQueue<SessionEvent> events,
            PeerListener listener)
            throws IOException, InterruptedException {
        if ((sourceMay & TransportChoice.OVER_RDMA) == 0) {
            return overTcp(dataConnections, pool, session, listener, "the source cannot use RDMA");
        }
        String whyNot = choice.whyNot();
        DirectListener waiting = null;
        if (whyNot == null) {
            try {
                waiting = choice.direct().listen(pool, ((InetSocketAddress) control.getLocalAddress()).getAddress());
            } catch (IOException e) {
                whyNot = e.getMessage();
                LOG.warn("{}", whyNot);
            }
        }
        if (waiting == null) {
            choice.requireTcpAllowed(whyNot);
            link.send(new DataMessage.Offer(false, 0, whyNot));
            requireAttached(events);
            return overTcp(dataConnections, pool, session, listener, whyNot);
        }
        try (DirectListener open = waiting) {
            link.send(new DataMessage.Offer(true, open.port(), ""));
            return overRdma(dataConnections, pool, session, control, events, listener, open);
        }
    }

    private Joined overTcp(
            int dataConnections, BufferPool pool, SessionId session, PeerListener listener, String reason)
            throws IOException, InterruptedException {
        List<SocketChannel> data = listener.awaitData(session, dataConnections, DATA_DEADLINE);
        choice.chosen(false, reason);
        return new Joined(pullListener -> pullers.create(pool, data, pullListener), null, data);
    }

    private Joined overRdma(
            int dataConnections,
            BufferPool pool,
            SessionId session,
            SocketChannel control,
            BlockingQueue<SessionEvent> events,
            PeerListener listener,
            DirectListener open)
            throws IOException, InterruptedException {
        DirectPeer peer = open.accept(
                ((InetSocketAddress) control.getRemoteAddress()).getAddress(),
                ATTACH_DEADLINE,
                () -> !events.isEmpty() && !(attached(events.peek()) instanceof Attached said && said.direct()));
        boolean kept = false;
        try {
            Attached said = requireAttached(events);
            if (!said.direct()) {
                return overTcp(dataConnections, pool, session, listener, said.reason());
            }
            if (peer == null) {
                throw new IOException("the source says that it has connected by RDMA, and no connection has come");
            }
            peer.require(new MemoryProof(said.address(), said.key(), said.digest()), DATA_DEADLINE);
            choice.chosen(true, peer.path());
            kept = true;
            return new Joined(peer::puller, peer, List.of());
        } finally {
            if (peer != null && !kept) {
                peer.close();
            }
        }
    }

    private static Attached requireAttached(BlockingQueue<SessionEvent> events)
            throws IOException, InterruptedException {
        SessionEvent event = events.poll(ATTACH_DEADLINE.toMillis(), TimeUnit.MILLISECONDS);
        if (attached(event) instanceof Attached said) {
            return said;
        }
        throw new IOException("the source does not say how it has connected: "
                + (event == null ? "nothing for " + ATTACH_DEADLINE : event));
    }

    private static Message attached(SessionEvent event) {
        return event instanceof SessionEvent.Said said ? said.message() : null;
    }
}
