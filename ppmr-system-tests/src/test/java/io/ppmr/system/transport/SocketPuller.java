package io.ppmr.system.transport;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.linux.LogContext;
import io.ppmr.transport.ChunkPuller;
import io.ppmr.transport.PullListener;
import io.ppmr.transport.RemoteBlock;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.SocketChannel;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Pulls over sockets, in the place of RDMA Reads where there is no RDMA. The caller's thread writes the small request.
 * The connection's own thread reads the answers, in the order of the requests, directly into the local chunks.
 */
public final class SocketPuller implements ChunkPuller {
    private static final Logger LOG = LoggerFactory.getLogger(SocketPuller.class);

    /**
     * Requests under way on one connection. It is a power of two. Their bytes fit any socket buffer, so no request
     * blocks.
     */
    private static final int DEPTH_A_CONNECTION = 64;

    private final BufferPool pool;
    private final PullListener listener;
    private final List<Connection> connections = new ArrayList<>();
    private volatile boolean closed;

    /** Uses connected and authenticated channels, and closes them. */
    public SocketPuller(BufferPool pool, List<SocketChannel> channels, PullListener listener) {
        this.pool = pool;
        this.listener = listener;
        for (SocketChannel channel : channels) {
            connections.add(new Connection(channel, connections.size()));
        }
        connections.forEach(connection -> connection.thread.start());
    }

    @Override
    public int depth() {
        return connections.size() * DEPTH_A_CONNECTION;
    }

    @Override
    public void pull(long pullId, RemoteBlock from, int localChunk, int localOffset, boolean more) {
        Connection least = connections.get(0);
        for (int i = 1; i < connections.size(); i++) {
            if (connections.get(i).underWay() < least.underWay()) {
                least = connections.get(i);
            }
        }
        least.request(pullId, from, localChunk, localOffset);
        if (!more) {
            for (int i = 0; i < connections.size(); i++) {
                connections.get(i).send();
            }
        }
    }

    @Override
    public void close() {
        closed = true;
        connections.forEach(connection -> SocketExporter.close(connection.channel));
        SocketExporter.join(
                connections.stream().map(connection -> connection.thread).toList());
    }

    /**
     * One data connection. The caller of {@link #pull} adds at the tail, and the connection's thread removes at the
     * head. When the connection fails, the thread that finds {@code failure} set and entries left answers them under
     * the lock.
     */
    private final class Connection {
        private final SocketChannel channel;
        private final Thread thread;
        private final long[] pullIds = new long[DEPTH_A_CONNECTION];
        private final int[] chunks = new int[DEPTH_A_CONNECTION];
        private final int[] offsets = new int[DEPTH_A_CONNECTION];
        private final int[] lengths = new int[DEPTH_A_CONNECTION];
        private final AtomicInteger head = new AtomicInteger();
        private final AtomicInteger tail = new AtomicInteger();
        /** Requests that are not sent yet. Only the caller of pull uses it. */
        private final ByteBuffer requests = ByteBuffer.allocateDirect(PullFrames.REQUEST_BYTES * DEPTH_A_CONNECTION)
                .order(ByteOrder.LITTLE_ENDIAN);

        private final ByteBuffer header =
                ByteBuffer.allocateDirect(PullFrames.ANSWER_BYTES).order(ByteOrder.LITTLE_ENDIAN);
        private volatile String failure;

        private Connection(SocketChannel channel, int number) {
            this.channel = channel;
            thread = LogContext.thread(this::receive, "ppmr-pull-" + number);
        }

        private int underWay() {
            return tail.get() - head.get();
        }

        private void request(long pullId, RemoteBlock from, int chunk, int offset) {
            if (underWay() == DEPTH_A_CONNECTION) {
                throw new IllegalStateException("more pulls than the depth of " + depth() + " allows");
            }
            int entry = tail.get() & (DEPTH_A_CONNECTION - 1);
            pullIds[entry] = pullId;
            chunks[entry] = chunk;
            offsets[entry] = offset;
            lengths[entry] = from.lengthBytes();
            tail.set(tail.get() + 1);
            if (failure != null) {
                failAll();
                return;
            }
            PullFrames.putRequest(requests, pullId, from.address(), from.key(), from.lengthBytes());
        }

        private void send() {
            if (requests.position() == 0) {
                return;
            }
            requests.flip();
            try {
                while (requests.hasRemaining()) {
                    channel.write(requests);
                }
            } catch (IOException e) {
                // The connection's thread fails on the same socket and answers the pulls under way, including these.
                SocketExporter.close(channel);
                LOG.debug("asking for chunks: {}", e.toString());
            }
            requests.clear();
        }

        private void receive() {
            try {
                while (true) {
                    header.clear();
                    readFully(header);
                    receiveOne();
                }
            } catch (IOException | RuntimeException e) {
                failure = closed ? "the transport was closed" : "data connection to the source failed: " + e;
                SocketExporter.close(channel);
                failAll();
            }
        }

        private void receiveOne() throws IOException {
            header.flip();
            long pullId = header.getLong();
            int status = header.getInt();
            int lengthBytes = header.getInt();
            int entry = head.get() & (DEPTH_A_CONNECTION - 1);
            if (underWay() == 0 || pullIds[entry] != pullId) {
                throw new IOException("an answer to pull " + pullId + ", which was not asked for next");
            }
            if (status != PullFrames.OK || lengthBytes != lengths[entry]) {
                throw new IOException("the source answers a pull of " + lengths[entry] + " bytes with status " + status
                        + " and " + lengthBytes + " bytes: the advertised block is outside its region");
            }
            ByteBuffer chunk = pool.buffer(chunks[entry]);
            chunk.limit(offsets[entry] + lengthBytes).position(offsets[entry]);
            readFully(chunk);
            head.set(head.get() + 1);
            listener.onPullCompleted(pullId);
        }

        private void readFully(ByteBuffer into) throws IOException {
            while (into.hasRemaining()) {
                if (channel.read(into) < 0) {
                    throw new EOFException("closed by the source");
                }
            }
        }

        private synchronized void failAll() {
            while (underWay() > 0) {
                long pullId = pullIds[head.get() & (DEPTH_A_CONNECTION - 1)];
                head.set(head.get() + 1);
                listener.onPullFailed(pullId, failure);
            }
        }
    }
}
