package io.ppmr.transport;

import io.ppmr.protocol.data.ChunkFrame;
import java.nio.ByteBuffer;

/**
 * Hears for a test how a transport's pulls end: nothing may come by itself.
 *
 * @param pulls hears how pulls end
 */
public record PullsAlone(PullListener pulls) implements Arrivals {
    @Override
    public void pulled(long pullId) {
        pulls.pulled(pullId);
    }

    @Override
    public void pullFailed(long pullId, String reason) {
        pulls.pullFailed(pullId, reason);
    }

    @Override
    public ByteBuffer onChunkStart(ChunkFrame chunk) {
        throw new AssertionError(chunk + " comes by itself");
    }

    @Override
    public boolean onChunkEnd(ChunkFrame chunk) {
        throw new AssertionError(chunk + " came by itself");
    }

    @Override
    public void onProtocolError(String reason) {
        throw new AssertionError(reason);
    }
}
