package io.ppmr.transport.tcp;

import io.ppmr.protocol.data.ChunkFrame;
import io.ppmr.protocol.data.Frame;
import io.ppmr.protocol.data.FrameType;
import io.ppmr.protocol.data.ProtocolException;
import io.ppmr.protocol.data.ReleaseFrame;
import io.ppmr.transport.Arrivals;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.util.concurrent.TimeUnit;
import org.agrona.concurrent.UnsafeBuffer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A data connection at the target: its thread reads a chunk's frame and then its bytes straight into the receive slot,
 * has them checked and shown, and releases the chunk at the source. Everything is its thread's alone.
 */
class ReceivingConnection extends DataConnection {
    private static final Logger LOG = LoggerFactory.getLogger(ReceivingConnection.class);
    private static final int RELEASES_AT_ONCE = 8;
    private static final int RELEASES_KEPT = 64;

    /** A release may wait so long for others to go with. */
    static final long RELEASES_WAIT_NS = TimeUnit.MILLISECONDS.toNanos(1);

    private final Arrivals arrivals;
    private final long releasesWaitNs;

    /** The frame of the chunk that comes, and room for the next one, which may come with its bytes. */
    private final ByteBuffer[] headers = {
        ByteBuffer.allocateDirect(ChunkFrame.LENGTH_BYTES), ByteBuffer.allocateDirect(ChunkFrame.LENGTH_BYTES)
    };

    private final UnsafeBuffer[] headerViews = {new UnsafeBuffer(headers[0]), new UnsafeBuffer(headers[1])};
    private final ByteBuffer[] bytesAndNext = new ByteBuffer[2];
    private final ChunkFrame chunk = new ChunkFrame();
    private final ByteBuffer out = ByteBuffer.allocateDirect(ReleaseFrame.LENGTH_BYTES * RELEASES_KEPT);
    private final UnsafeBuffer outView = new UnsafeBuffer(out);
    private boolean soon;
    /** The time at which the first of the releases that wait must go. */
    private long releasesDueNs;

    private int current;
    private boolean inChunk;
    private long nextOrder;
    private long arrivedChunks;

    /** The bytes that come have a place. */
    private boolean isPlaced;

    /** @param releasesWaitNs how long a release may wait for others to go with */
    ReceivingConnection(SocketChannel channel, String name, Arrivals arrivals, long releasesWaitNs) {
        super(channel, name);
        this.arrivals = arrivals;
        this.releasesWaitNs = releasesWaitNs;
    }

    /** Counts the chunks that have come whole on this connection; for its thread, and after its end. */
    final long arrivedChunks() {
        return arrivedChunks;
    }

    /** For its thread at its end: the chunk whose bytes were coming goes back, if there was one. */
    final void giveBackChunk() {
        if (isPlaced) {
            isPlaced = false;
            arrivals.onChunkAborted(chunk);
        }
    }

    /** The peer has broken the protocol, or this node has: the session fails. */
    final void breaks(String reason) {
        arrivals.onProtocolError(reason);
        try {
            awaitClose();
        } catch (IOException closed) {
            LOG.debug("a data connection that had failed is closed: {}", closed.toString());
        }
    }

    /** Fills the first bytes of the buffer of the next frame, in place of that, within a deadline. */
    final UnsafeBuffer first(int lengthBytes, long deadlineNs) throws IOException {
        ByteBuffer into = headers[current].clear().limit(lengthBytes);
        while (into.hasRemaining()) {
            requireOpen(channel.read(into));
            long leftMs = TimeUnit.NANOSECONDS.toMillis(deadlineNs - System.nanoTime());
            if (into.hasRemaining() && (leftMs <= 0 || !await(leftMs))) {
                throw new IOException("nothing was said on it in time: the source hangs or is none");
            }
        }
        into.clear();
        return headerViews[current];
    }

    @Override
    void run() throws IOException {
        boolean good = true;
        while (good) {
            ByteBuffer header = headers[current];
            while (header.hasRemaining()) {
                requireOpen(channel.read(header));
                waitIfMoreIsDue(header);
            }
            inChunk = true;
            requireNext();
            bytesAndNext[0] = arrivals.onChunkStart(chunk);
            isPlaced = true;
            bytesAndNext[1] = headers[1 - current].clear();
            while (bytesAndNext[0].hasRemaining()) {
                requireOpen(channel.read(bytesAndNext));
                waitIfMoreIsDue(bytesAndNext[0]);
            }
            isPlaced = false;
            good = arrivals.onChunkEnd(chunk);
            if (good) {
                arrivedChunks++;
                release();
            }
            current = 1 - current;
            inChunk = false;
        }
        sendReleases();
        awaitClose();
    }

    private void requireNext() throws ProtocolException {
        UnsafeBuffer header = headerViews[current];
        FrameType type = Frame.requireValid(header, 0);
        if (type != FrameType.CHUNK || Frame.lengthBytes(header, 0) != ChunkFrame.LENGTH_BYTES) {
            throw new ProtocolException(
                    "frame " + type + " of " + Frame.lengthBytes(header, 0) + " bytes where a chunk was due");
        }
        chunk.wrap(header, 0);
        if (chunk.order() != nextOrder) {
            throw new ProtocolException(
                    "chunk " + chunk.order() + " where " + nextOrder + " was due: a frame was lost or doubled");
        }
        nextOrder++;
    }

    private static void requireOpen(long read) throws EOFException {
        if (read < 0) {
            throw new EOFException("closed by the source");
        }
    }

    /** The socket has no more now: waits, and before that sends the releases that should not wait. */
    private void waitIfMoreIsDue(ByteBuffer into) throws IOException {
        if (!into.hasRemaining()) {
            return;
        }
        long leftNs = releasesDueNs - System.nanoTime();
        boolean due = soon || leftNs <= 0;
        if (due) {
            sendReleases();
        }
        boolean left = out.position() > 0;
        watch(true, due && left);
        if (!await(left && !due ? TimeUnit.NANOSECONDS.toMillis(leftNs) + 1 : 0)) {
            sendReleases();
        }
    }

    private void release() throws IOException {
        soon |= (chunk.flags() & ChunkFrame.RELEASE_SOON) != 0;
        while (out.remaining() < ReleaseFrame.LENGTH_BYTES) {
            sendReleases();
            if (out.remaining() < ReleaseFrame.LENGTH_BYTES) {
                watch(false, true);
                await();
            }
        }
        if (out.position() == 0) {
            releasesDueNs = System.nanoTime() + releasesWaitNs;
        }
        ReleaseFrame.encode(outView, out.position(), chunk.attempt(), chunk.file(), chunk.order(), chunk.sourceChunk());
        out.position(out.position() + ReleaseFrame.LENGTH_BYTES);
        if (out.position() >= ReleaseFrame.LENGTH_BYTES * RELEASES_AT_ONCE) {
            sendReleases();
        }
    }

    private void sendReleases() throws IOException {
        if (out.position() > 0) {
            out.flip();
            channel.write(out);
            out.compact();
            soon = out.position() > 0;
        }
    }

    /** The session says why it fails; a connection that were closed now could be heard of before that. */
    private void awaitClose() throws IOException {
        watch(false, false);
        while (!isClosing()) {
            await();
        }
    }

    /** Between two chunks an end of the connection is no failure: what is missing, the session notices. */
    @Override
    void failed(Exception cause) {
        boolean betweenChunks = !inChunk && headers[current].position() == 0;
        if (betweenChunks && cause instanceof IOException && !(cause instanceof ProtocolException)) {
            LOG.debug("a data connection has ended: {}", cause.toString());
            return;
        }
        breaks("data connection to the source failed: " + cause);
    }
}
