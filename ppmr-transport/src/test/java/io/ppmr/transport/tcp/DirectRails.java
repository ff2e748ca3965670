package io.ppmr.transport.tcp;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.transport.RailSender;
import io.ppmr.transport.Transport;
import java.io.IOException;
import java.nio.channels.SocketChannel;
import java.time.Duration;
import java.util.function.Consumer;

/** Connects the source's end of a rail over RDMA over a connection without a handshake. For tests. */
public final class DirectRails {
    private static final Duration DEADLINE = Duration.ofSeconds(60);

    private DirectRails() {}

    /** Connects at the other end of a TCP connection whose rail is known. */
    public static RailSender.RailConnection join(
            BufferPool pool, Transport direct, SocketChannel channel, int attempt, Consumer<String> onFailure)
            throws IOException {
        return new RailConnector(pool, null, DEADLINE, null, attempt, 1, direct).openDirect(channel, onFailure);
    }
}
