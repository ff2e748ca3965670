package io.ppmr.transport;

import io.ppmr.protocol.data.ChunkFrame;
import java.nio.ByteBuffer;

/**
 * Receives a transport's pull results for a test, and fails on chunks that were not pulled.
 *
 * @param pulls receives the results
 */
public record PullsAlone(PullListener pulls) implements Arrivals {
    @Override
    public void onPullCompleted(long pullId) {
        pulls.onPullCompleted(pullId);
    }

    @Override
    public void onPullFailed(long pullId, String reason) {
        pulls.onPullFailed(pullId, reason);
    }

    @Override
    public ByteBuffer onChunkStart(ChunkFrame chunk) {
        throw new AssertionError(chunk + " arrived without a pull");
    }

    @Override
    public boolean onChunkEnd(ChunkFrame chunk) {
        throw new AssertionError(chunk + " arrived without a pull");
    }

    @Override
    public void onProtocolError(String reason) {
        throw new AssertionError(reason);
    }
}
