package io.ppmr.target;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.target.image.HeadStore;

/**
 * Room for one migration: a pool and a head store of its own, made when the service starts, so that several sources can
 * be served at once and none can starve another. Owned by the migration that has taken it.
 *
 * @param pool the configured pool and its lane
 * @param laneChunks how many of its chunks are the lane
 * @param heads the first bytes of each file
 */
record Berth(BufferPool pool, int laneChunks, HeadStore heads) {

    static Berth of(PoolGeometry geometry, long headsLimitBytes) {
        int laneChunks = laneChunks(geometry);
        return new Berth(new BufferPool(geometry.plus(laneChunks)), laneChunks, new HeadStore(headsLimitBytes));
    }

    /** How many chunks beside the pool are the lane: an eighth of it, at most eight. */
    static int laneChunks(PoolGeometry geometry) {
        return Math.max(1, Math.min(8, geometry.chunkCount() / 8));
    }
}
