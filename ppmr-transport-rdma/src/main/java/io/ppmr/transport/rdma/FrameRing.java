package io.ppmr.transport.rdma;

import com.ibm.disni.verbs.IbvMr;
import io.ppmr.protocol.data.ChunkFrame;
import java.io.IOException;
import java.nio.ByteBuffer;
import org.agrona.BufferUtil;
import org.agrona.concurrent.UnsafeBuffer;

/**
 * The ring in the target's memory into which the source writes the frame of each chunk before the chunk itself. The
 * frame of the chunk with order {@code n} goes to entry {@code n} modulo the number of entries, which is what the
 * immediate data tells. Registered for the session's connection, and kept for as long as that lives; read by the
 * receiver's agent alone.
 */
final class FrameRing {
    /** More chunks are not under way at once; each takes two requests and a receive. */
    static final int MOST_ENTRIES = Endpoint.QUEUE_DEPTH / 2;

    /** A cache line, and more than a frame has. */
    static final int ENTRY_BYTES = 64;

    private final int entries;
    private final ByteBuffer bytes;
    private final UnsafeBuffer view;
    private final IbvMr region;

    /** @param chunks of the pool that the peer writes: no more can be on their way */
    FrameRing(Endpoint endpoint, int chunks) throws IOException {
        entries = Math.min(chunks, MOST_ENTRIES);
        bytes = BufferUtil.allocateDirectAligned(entries * ENTRY_BYTES, ENTRY_BYTES);
        view = new UnsafeBuffer(bytes);
        region = endpoint.register(
                "the ring of frames",
                BufferUtil.address(bytes),
                entries * ENTRY_BYTES,
                IbvMr.IBV_ACCESS_LOCAL_WRITE | IbvMr.IBV_ACCESS_REMOTE_WRITE);
    }

    int entries() {
        return entries;
    }

    long address() {
        return BufferUtil.address(bytes);
    }

    int remoteKey() {
        return region.getRkey();
    }

    /** Copies the frame of an entry: the peer can change the ring while it is looked at. */
    void copy(int entry, UnsafeBuffer to) {
        to.putBytes(0, view, entry * ENTRY_BYTES, ChunkFrame.LENGTH_BYTES);
    }
}
