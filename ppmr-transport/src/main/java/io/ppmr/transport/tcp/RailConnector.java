package io.ppmr.transport.tcp;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.protocol.data.DataMessage.Attached;
import io.ppmr.protocol.data.DataMessage.Offer;
import io.ppmr.protocol.data.DataMessage.OfferedRail;
import io.ppmr.protocol.data.DataMessage.Writable;
import io.ppmr.protocol.data.FrameType;
import io.ppmr.protocol.data.RdmaMode;
import io.ppmr.protocol.data.ValueFrame;
import io.ppmr.transport.MemoryProof;
import io.ppmr.transport.RailSender;
import io.ppmr.transport.RailSettings;
import io.ppmr.transport.Transport;
import io.ppmr.transport.auth.PeerAuthenticator;
import io.ppmr.transport.auth.SessionKeys;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.function.Consumer;
import org.agrona.concurrent.UnsafeBuffer;

/**
 * Connects rails, for one session at the source. Immutable, for any thread.
 *
 * @param deadline for each connection, with its handshake
 * @param connections the number of connections of each rail over TCP
 * @param direct the transport of rails over RDMA; null if this node has no such rail
 */
public record RailConnector(
        BufferPool pool,
        PeerAuthenticator authenticator,
        Duration deadline,
        SessionKeys session,
        int attempt,
        int connections,
        Transport direct) {

    /**
     * Connects a rail. Each TCP connection proves the key and the session in its handshake, and sends its rail's
     * number. For a rail over RDMA both ends then negotiate the RDMA connection over its only TCP connection.
     *
     * @param here this node's end of it
     * @param there the target's
     */
    public RailSender.RailConnection open(
            RailSettings here, OfferedRail there, int number, int generation, Consumer<String> onFailure)
            throws IOException {
        if (here.direct() != there.direct()) {
            throw new IOException("its transport is \"" + transport(here.direct()) + "\" here and \""
                    + transport(there.direct()) + "\" at the target: configure the same transport on both nodes");
        }
        String why = here.direct() ? direct.unusable() : null;
        if (why != null) {
            throw new IOException("its transport is \"rdma\", which this node cannot use: " + why);
        }
        InetSocketAddress target = new InetSocketAddress(there.host(), there.port());
        List<SocketChannel> channels = new Connector(
                        target, authenticator, deadline, here.address().orElse(null))
                .data(session, here.direct() ? 1 : connections);
        RailSender.RailConnection connection = null;
        try {
            for (int i = 0; i < channels.size(); i++) {
                UnsafeBuffer frame = new UnsafeBuffer(ByteBuffer.allocate(ValueFrame.LENGTH_BYTES));
                ValueFrame.encode(frame, 0, FrameType.RAIL, attempt, number, ((long) generation << Integer.SIZE) | i);
                // The send buffer of a new connection has space for these few bytes.
                channels.get(i).write(frame.byteBuffer());
            }
            connection = here.direct()
                    ? openDirect(channels.get(0), onFailure)
                    : new TcpChunkSender(pool, channels, onFailure);
            return connection;
        } finally {
            for (SocketChannel channel : connection != null ? List.<SocketChannel>of() : channels) {
                channel.close();
            }
        }
    }

    private static String transport(boolean isDirect) {
        return isDirect ? "rdma" : "tcp";
    }

    /**
     * Connects to the target by RDMA, with the parameters that both ends send over the rail's authenticated connection.
     */
    RailSender.RailConnection openDirect(SocketChannel channel, Consumer<String> onFailure) throws IOException {
        channel.configureBlocking(false);
        RailMessages messages = new RailMessages(channel, attempt);
        InetSocketAddress from = (InetSocketAddress) channel.getLocalAddress();
        InetSocketAddress to = (InetSocketAddress) channel.getRemoteAddress();
        Offer offer = messages.await(Offer.class, deadline, () -> false);
        if (!offer.direct().equals(Optional.of(RdmaMode.WRITE))) {
            throw new IOException("the target offers " + offer + ", but RDMA Write was expected");
        }
        RailSender.RailConnection connection = direct.connectRail(
                pool, from.getAddress(), new InetSocketAddress(to.getAddress(), offer.port()), deadline, onFailure);
        boolean isConnected = false;
        try {
            MemoryProof proof = connection.proof();
            messages.send(new Attached(true, proof.address(), proof.key(), proof.digest(), connection.path()));
            connection.onWritable(messages.await(Writable.class, deadline, () -> false));
            isConnected = true;
            return new RdmaRailConnection(connection, channel);
        } finally {
            if (!isConnected) {
                connection.close();
            }
        }
    }
}
