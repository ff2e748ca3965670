package io.ppmr.transport.tcp;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.protocol.data.DataMessage.Rail;
import io.ppmr.protocol.data.FrameType;
import io.ppmr.protocol.data.ValueFrame;
import io.ppmr.transport.RailSettings;
import io.ppmr.transport.Rails;
import io.ppmr.transport.auth.PeerAuthenticator;
import io.ppmr.transport.auth.SessionId;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.time.Duration;
import java.util.List;
import java.util.function.Consumer;
import org.agrona.concurrent.UnsafeBuffer;

/**
 * Connects rails over TCP, for one session at the source. Immutable, for any thread.
 *
 * @param deadline for making a connection, with its handshake
 * @param connections how many each rail has
 */
public record TcpRails(
        BufferPool pool,
        PeerAuthenticator authenticator,
        Duration deadline,
        SessionId session,
        int attempt,
        int connections) {

    /**
     * Connects one: each connection proves the key and the session in its handshake, and says which rail it is of.
     *
     * @param here this node's end of it
     * @param there the target's
     */
    public Rails.Line open(RailSettings here, Rail there, int number, int life, Consumer<String> onFailure)
            throws IOException {
        InetSocketAddress target = new InetSocketAddress(there.host(), there.port());
        List<SocketChannel> channels =
                new Connector(target, authenticator, deadline, here.address().orElse(null)).data(session, connections);
        boolean isSaid = false;
        try {
            for (int i = 0; i < channels.size(); i++) {
                UnsafeBuffer frame = new UnsafeBuffer(ByteBuffer.allocate(ValueFrame.LENGTH_BYTES));
                ValueFrame.encode(frame, 0, FrameType.RAIL, attempt, number, ((long) life << Integer.SIZE) | i);
                // So few bytes a new connection takes at once.
                channels.get(i).write(frame.byteBuffer());
            }
            isSaid = true;
            return new TcpChunkSender(pool, channels, onFailure);
        } finally {
            for (SocketChannel channel : isSaid ? List.<SocketChannel>of() : channels) {
                channel.close();
            }
        }
    }
}
