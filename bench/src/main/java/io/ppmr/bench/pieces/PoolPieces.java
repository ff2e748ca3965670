package io.ppmr.bench.pieces;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.bufferpool.PoolGeometry;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.Threads;

/** A chunk's way through the pool: FREE, FILLING, READY, FREE; by one thread, and by two that share a pool. */
@State(Scope.Benchmark)
public class PoolPieces {
    private final BufferPool pool = new BufferPool(PoolGeometry.of(8 << 20, 128 << 10));

    @Benchmark
    public int claimReadyRelease() {
        int chunk = pool.tryClaim();
        pool.ready(chunk);
        pool.release(chunk);
        return chunk;
    }

    @Benchmark
    @Threads(2)
    public int claimReadyReleaseByTwo() {
        return claimReadyRelease();
    }
}
