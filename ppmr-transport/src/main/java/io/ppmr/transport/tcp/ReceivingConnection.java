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
 * A data connection at the target. Its thread reads each chunk's frame, then its bytes directly into the receive slot.
 * The arrivals check and publish the chunk, and the thread releases it at the source. All fields belong to this thread.
 */
class ReceivingConnection extends DataConnection {
    private static final Logger LOG = LoggerFactory.getLogger(ReceivingConnection.class);
    private static final int RELEASE_BATCH = 8;
    private static final int MAX_RELEASES = 64;

    /** Maximum delay of a release, so that several are sent together. */
    static final long RELEASE_DELAY_NS = TimeUnit.MILLISECONDS.toNanos(1);

    private final Arrivals arrivals;
    private final long releaseDelayNs;

    /** The frame of the current chunk, and space for the next one, which may arrive with its bytes. */
    private final ByteBuffer[] headers = {
        ByteBuffer.allocateDirect(ChunkFrame.LENGTH_BYTES), ByteBuffer.allocateDirect(ChunkFrame.LENGTH_BYTES)
    };

    private final UnsafeBuffer[] headerViews = {new UnsafeBuffer(headers[0]), new UnsafeBuffer(headers[1])};
    private final ByteBuffer[] bytesAndNext = new ByteBuffer[2];
    private final ChunkFrame chunk = new ChunkFrame();
    private final ByteBuffer out = ByteBuffer.allocateDirect(ReleaseFrame.LENGTH_BYTES * MAX_RELEASES);
    private final UnsafeBuffer outView = new UnsafeBuffer(out);
    private boolean releaseSoon;
    /** The time at which the first delayed release must be sent. */
    private long releasesDueNs;

    private int current;
    private boolean inChunk;
    private long nextOrder;
    private long arrivedChunks;

    /** The arriving bytes have a buffer. */
    private boolean hasBuffer;

    /** @param releaseDelayNs maximum delay of a release, so that several are sent together */
    ReceivingConnection(SocketChannel channel, String name, Arrivals arrivals, long releaseDelayNs) {
        super(channel, name);
        this.arrivals = arrivals;
        this.releaseDelayNs = releaseDelayNs;
    }

    /** Returns the number of chunks that arrived completely on this connection; for its thread, and after its end. */
    final long arrivedChunks() {
        return arrivedChunks;
    }

    /** Called by its thread at its end: returns the buffer of an incomplete chunk, if there is one. */
    final void returnBuffer() {
        if (hasBuffer) {
            hasBuffer = false;
            arrivals.onChunkAborted(chunk);
        }
    }

    /** Fails the session, because the peer violated the protocol or this node has an error. */
    final void failSession(String reason) {
        arrivals.onProtocolError(reason);
        try {
            awaitClose();
        } catch (IOException closed) {
            LOG.debug("a failed data connection is closed: {}", closed.toString());
        }
    }

    /** Reads a first frame of this length into the buffer of the next chunk's frame, within a deadline. */
    final UnsafeBuffer readFirst(int lengthBytes, long deadlineNs) throws IOException {
        ByteBuffer into = headers[current].clear().limit(lengthBytes);
        while (into.hasRemaining()) {
            requireOpen(channel.read(into));
            long remainingMs = TimeUnit.NANOSECONDS.toMillis(deadlineNs - System.nanoTime());
            if (into.hasRemaining() && (remainingMs <= 0 || !await(remainingMs))) {
                throw new IOException("no frame arrived in time: the source hangs, or is not a source");
            }
        }
        into.clear();
        return headerViews[current];
    }

    @Override
    void run() throws IOException {
        boolean isCorrect = true;
        while (isCorrect) {
            ByteBuffer header = headers[current];
            while (header.hasRemaining()) {
                requireOpen(channel.read(header));
                waitForMore(header);
            }
            inChunk = true;
            requireNext();
            bytesAndNext[0] = arrivals.onChunkStart(chunk);
            hasBuffer = true;
            bytesAndNext[1] = headers[1 - current].clear();
            while (bytesAndNext[0].hasRemaining()) {
                requireOpen(channel.read(bytesAndNext));
                waitForMore(bytesAndNext[0]);
            }
            hasBuffer = false;
            isCorrect = arrivals.onChunkEnd(chunk);
            if (isCorrect) {
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
                    "frame " + type + " of " + Frame.lengthBytes(header, 0) + " bytes instead of a chunk");
        }
        chunk.wrap(header, 0);
        if (chunk.order() != nextOrder) {
            throw new ProtocolException(
                    "chunk " + chunk.order() + " instead of " + nextOrder + ": a frame was lost or duplicated");
        }
        nextOrder++;
    }

    private static void requireOpen(long read) throws EOFException {
        if (read < 0) {
            throw new EOFException("closed by the source");
        }
    }

    /** The socket has no more bytes now: waits, and before that sends the releases that are due. */
    private void waitForMore(ByteBuffer into) throws IOException {
        if (!into.hasRemaining()) {
            return;
        }
        long remainingNs = releasesDueNs - System.nanoTime();
        boolean due = releaseSoon || remainingNs <= 0;
        if (due) {
            sendReleases();
        }
        boolean hasReleases = out.position() > 0;
        watch(true, due && hasReleases);
        if (!await(hasReleases && !due ? TimeUnit.NANOSECONDS.toMillis(remainingNs) + 1 : 0)) {
            sendReleases();
        }
    }

    private void release() throws IOException {
        releaseSoon |= (chunk.flags() & ChunkFrame.RELEASE_SOON) != 0;
        while (out.remaining() < ReleaseFrame.LENGTH_BYTES) {
            sendReleases();
            if (out.remaining() < ReleaseFrame.LENGTH_BYTES) {
                watch(false, true);
                await();
            }
        }
        if (out.position() == 0) {
            releasesDueNs = System.nanoTime() + releaseDelayNs;
        }
        ReleaseFrame.encode(outView, out.position(), chunk.attempt(), chunk.file(), chunk.order(), chunk.sourceChunk());
        out.position(out.position() + ReleaseFrame.LENGTH_BYTES);
        if (out.position() >= ReleaseFrame.LENGTH_BYTES * RELEASE_BATCH) {
            sendReleases();
        }
    }

    private void sendReleases() throws IOException {
        if (out.position() > 0) {
            out.flip();
            channel.write(out);
            out.compact();
            releaseSoon = out.position() > 0;
        }
    }

    /**
     * Keeps the connection open while the session reports its failure, so that the peer does not see the close first.
     */
    private void awaitClose() throws IOException {
        watch(false, false);
        while (!isClosing()) {
            await();
        }
    }

    /** Between two chunks an end of the connection is no failure, because the session detects missing chunks. */
    @Override
    void onFailure(Exception cause) {
        boolean betweenChunks = !inChunk && headers[current].position() == 0;
        if (betweenChunks && cause instanceof IOException && !(cause instanceof ProtocolException)) {
            LOG.debug("a data connection ended: {}", cause.toString());
            return;
        }
        failSession("data connection to the source failed: " + cause);
    }
}
