package io.ppmr.target.session;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.transport.ChunkPuller;
import io.ppmr.transport.PullListener;
import java.nio.channels.SocketChannel;
import java.util.List;

/** Makes the target's half of the transport for one session. */
@FunctionalInterface
public interface PullerFactory {

    /** A puller that takes over the session's data connections and reports to the listener. */
    ChunkPuller create(BufferPool pool, List<SocketChannel> dataConnections, PullListener listener);
}
