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
import io.ppmr.transport.auth.SessionId;
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
 * @param deadline for making a connection, with its handshake
 * @param connections how many each rail over TCP has
 * @param direct by which the chunks of rails over RDMA are written; null where this node has no such rail
 */
public record RailConnector(
        BufferPool pool,
        PeerAuthenticator authenticator,
        Duration deadline,
        SessionId session,
        int attempt,
        int connections,
        Transport direct) {

    /**
     * Connects one: each connection of TCP proves the key and the session in its handshake, and says which rail it is
     * of. By the one of a rail over RDMA both ends then say how they connect so.
     *
     * @param here this node's end of it
     * @param there the target's
     */
    public RailSender.RailConnection open(
            RailSettings here, OfferedRail there, int number, int generation, Consumer<String> onFailure)
            throws IOException {
        if (here.direct() != there.direct()) {
            throw new IOException("its transport is \"" + transport(here.direct()) + "\" here and \""
                    + transport(there.direct()) + "\" at the target: write the same into both files");
        }
        String why = here.direct() ? direct.unusable() : null;
        if (why != null) {
            throw new IOException("its transport is \"rdma\", which this node cannot use: " + why);
        }
        InetSocketAddress target = new InetSocketAddress(there.host(), there.port());
        List<SocketChannel> channels = new Connector(
                        target, authenticator, deadline, here.address().orElse(null))
                .data(session, here.direct() ? 1 : connections);
        RailSender.RailConnection line = null;
        try {
            for (int i = 0; i < channels.size(); i++) {
                UnsafeBuffer frame = new UnsafeBuffer(ByteBuffer.allocate(ValueFrame.LENGTH_BYTES));
                ValueFrame.encode(frame, 0, FrameType.RAIL, attempt, number, ((long) generation << Integer.SIZE) | i);
                // So few bytes a new connection takes at once.
                channels.get(i).write(frame.byteBuffer());
            }
            line = here.direct()
                    ? openDirect(channels.get(0), onFailure)
                    : new TcpChunkSender(pool, channels, onFailure);
            return line;
        } finally {
            for (SocketChannel channel : line != null ? List.<SocketChannel>of() : channels) {
                channel.close();
            }
        }
    }

    private static String transport(boolean isDirect) {
        return isDirect ? "rdma" : "tcp";
    }

    /** Joins the target by RDMA, as both ends say on a connection that is known to be the rail's. */
    RailSender.RailConnection openDirect(SocketChannel channel, Consumer<String> onFailure) throws IOException {
        channel.configureBlocking(false);
        RailMessages words = new RailMessages(channel, attempt);
        InetSocketAddress from = (InetSocketAddress) channel.getLocalAddress();
        InetSocketAddress to = (InetSocketAddress) channel.getRemoteAddress();
        Offer offer = words.await(Offer.class, deadline, () -> false);
        if (!offer.direct().equals(Optional.of(RdmaMode.WRITE))) {
            throw new IOException("the target offers " + offer + ", where RDMA Write was due");
        }
        RailSender.RailConnection line = direct.connectRail(
                pool, from.getAddress(), new InetSocketAddress(to.getAddress(), offer.port()), deadline, onFailure);
        boolean isJoined = false;
        try {
            MemoryProof proof = line.proof();
            words.send(new Attached(true, proof.address(), proof.key(), proof.digest(), line.path()));
            line.mayWrite(words.await(Writable.class, deadline, () -> false));
            isJoined = true;
            return new RdmaRailConnection(line, channel);
        } finally {
            if (!isJoined) {
                line.close();
            }
        }
    }
}
