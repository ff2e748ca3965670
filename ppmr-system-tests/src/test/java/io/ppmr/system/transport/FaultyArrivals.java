package io.ppmr.system.transport;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.protocol.data.ChunkFrame;
import io.ppmr.protocol.data.ProtocolException;
import io.ppmr.system.transport.FaultyPuller.Drawn;
import io.ppmr.transport.Arrivals;
import java.nio.ByteBuffer;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Supplier;

/**
 * Causes configured faults in chunks that are sent without a request. It wraps arrivals without faults. It is for
 * tests. A delayed chunk delays those behind it on its connection. Chunks on other connections overtake it.
 *
 * @param pool the pool of the received chunks
 * @param draw returns the fault of the next chunk, on any thread
 */
public record FaultyArrivals(BufferPool pool, Arrivals inner, Supplier<Drawn> draw) implements Arrivals {
    @Override
    public ByteBuffer onChunkStart(ChunkFrame chunk) throws ProtocolException {
        return inner.onChunkStart(chunk);
    }

    @Override
    public boolean onChunkEnd(ChunkFrame chunk) {
        Drawn drawn = draw.get();
        switch (drawn.fault()) {
            case NONE -> {
                // It succeeds.
            }
            case CORRUPT -> {
                int at = pool.geometry().offsetInWindow(chunk.offset());
                ByteBuffer bytes = pool.buffer(chunk.slot());
                bytes.clear().put(at, (byte) (bytes.get(at) ^ 1));
            }
            case FAIL -> {
                inner.onProtocolError("a fault was injected into this chunk");
                return false;
            }
            case DELAY -> {
                long untilNs = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(drawn.delayMs());
                for (long leftNs = 1; leftNs > 0; leftNs = untilNs - System.nanoTime()) {
                    LockSupport.parkNanos(leftNs);
                }
            }
        }
        return inner.onChunkEnd(chunk);
    }

    @Override
    public void onChunkAborted(ChunkFrame chunk) {
        inner.onChunkAborted(chunk);
    }

    @Override
    public void onConnectionLost(String reason) {
        inner.onConnectionLost(reason);
    }

    @Override
    public void onProtocolError(String reason) {
        inner.onProtocolError(reason);
    }

    @Override
    public void onPullCompleted(long pullId) {
        inner.onPullCompleted(pullId);
    }

    @Override
    public void onPullFailed(long pullId, String reason) {
        inner.onPullFailed(pullId, reason);
    }
}
