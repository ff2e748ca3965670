package io.ppmr.bench.pieces;

import io.ppmr.bufferpool.ByteRangeSet;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.OperationsPerInvocation;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.State;

/** What has been written of a chunk, as ranges: 32 blocks of 4 KiB, one after the other, and every other one first. */
@State(Scope.Thread)
public class RangePieces {
    private static final int BLOCKS = 32;
    private static final int BLOCK_BYTES = 4096;

    private final ByteRangeSet ranges = new ByteRangeSet();

    @Benchmark
    @OperationsPerInvocation(BLOCKS)
    public long addAscending() {
        ranges.truncate(0);
        for (int block = 0; block < BLOCKS; block++) {
            add(block);
        }
        return ranges.coveredTo(0);
    }

    @Benchmark
    @OperationsPerInvocation(BLOCKS)
    public long addEveryOtherFirst() {
        ranges.truncate(0);
        for (int half = 0; half < 2; half++) {
            for (int block = half; block < BLOCKS; block += 2) {
                add(block);
            }
        }
        return ranges.coveredTo(0);
    }

    private void add(int block) {
        long start = (long) block * BLOCK_BYTES;
        ranges.add(start, start + BLOCK_BYTES);
    }
}
