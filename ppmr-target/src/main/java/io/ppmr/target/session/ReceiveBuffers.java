package io.ppmr.target.session;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.target.image.FilePrefixStore;

/**
 * The memory of one migration: a separate pool and prefix store, created when the service starts. So several sources
 * can be served at once without starving each other. Owned by the migration that uses it.
 *
 * @param pool the configured pool and its bounce buffers
 * @param bounceBuffers the number of its chunks that are bounce buffers
 * @param prefixes the first bytes of each file
 */
public record ReceiveBuffers(BufferPool pool, int bounceBuffers, FilePrefixStore prefixes) {

    public static ReceiveBuffers of(PoolGeometry geometry, long prefixesLimitBytes) {
        int bounceBuffers = bounceBuffers(geometry);
        return new ReceiveBuffers(
                new BufferPool(geometry.plus(bounceBuffers)), bounceBuffers, new FilePrefixStore(prefixesLimitBytes));
    }

    /** Returns the number of additional chunks that are bounce buffers: an eighth of the pool, at most eight. */
    static int bounceBuffers(PoolGeometry geometry) {
        return Math.max(1, Math.min(8, geometry.chunkCount() / 8));
    }
}
