package io.ppmr.target.session;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.target.image.FilePrefixStore;

/**
 * Room for one migration: a pool and a head store of its own, made when the service starts, so that several sources can
 * be served at once and none can starve another. Owned by the migration that has taken it.
 *
 * @param pool the configured pool and its bounce buffers
 * @param bounceBuffers how many of its chunks are bounce buffers
 * @param prefixes the first bytes of each file
 */
public record ReceiveBuffers(BufferPool pool, int bounceBuffers, FilePrefixStore prefixes) {

    public static ReceiveBuffers of(PoolGeometry geometry, long prefixesLimitBytes) {
        int bounceBuffers = bounceBuffers(geometry);
        return new ReceiveBuffers(
                new BufferPool(geometry.plus(bounceBuffers)), bounceBuffers, new FilePrefixStore(prefixesLimitBytes));
    }

    /** Returns how many chunks beside the pool are bounce buffers: an eighth of it, at most eight. */
    static int bounceBuffers(PoolGeometry geometry) {
        return Math.max(1, Math.min(8, geometry.chunkCount() / 8));
    }
}
