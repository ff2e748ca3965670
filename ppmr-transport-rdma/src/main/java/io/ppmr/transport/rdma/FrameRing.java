package io.ppmr.transport.rdma;

import com.ibm.disni.verbs.IbvMr;
import io.ppmr.protocol.data.ChunkFrame;
import java.io.IOException;
import java.nio.ByteBuffer;
import org.agrona.BufferUtil;
import org.agrona.concurrent.UnsafeBuffer;

/**
 * The ring in the target's memory to which the source writes the frame of each chunk before the chunk itself. The frame
 * of the chunk with order {@code n} goes to entry {@code n} modulo the number of entries, which the immediate data
 * names. Registered and kept as long as the session's connection. Only the receiver's agent reads it.
 */
final class FrameRing {
    /** Maximum number of chunks under way. Each needs two requests and a receive. */
    static final int MAX_ENTRIES = Endpoint.QUEUE_DEPTH / 2;

    /** A cache line, which is longer than a frame. */
    static final int ENTRY_BYTES = 64;

    private final int entries;
    private final ByteBuffer bytes;
    private final UnsafeBuffer view;
    private final IbvMr region;

    /** @param chunks the chunks of the pool, which limit the number under way */
    FrameRing(Endpoint endpoint, int chunks) throws IOException {
        entries = Math.min(chunks, MAX_ENTRIES);
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

    /** Copies the frame of an entry, because the peer can change the ring at any time. */
    void copy(int entry, UnsafeBuffer to) {
        to.putBytes(0, view, entry * ENTRY_BYTES, ChunkFrame.LENGTH_BYTES);
    }
}
