package io.ppmr.bench.pieces;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.bufferpool.ByteRangeSet;
import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.protocol.data.AdvertiseFrame;
import io.ppmr.protocol.data.DataMessage;
import io.ppmr.protocol.data.Message;
import io.ppmr.protocol.data.NodeKind;
import io.ppmr.protocol.data.ProtocolException;
import io.ppmr.protocol.data.ReleaseFrame;
import java.nio.ByteBuffer;
import java.util.zip.CRC32C;
import org.agrona.concurrent.UnsafeBuffer;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.OperationsPerInvocation;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.Threads;

/** The inner pieces of the data path, for JMH. */
public final class Pieces {
    private Pieces() {}

    /**
     * The states of a chunk in the pool: FREE, FILLING, READY, FREE. One thread uses the pool, or two threads share it.
     */
    @State(Scope.Benchmark)
    public static class PoolPieces {
        private final BufferPool pool = new BufferPool(PoolGeometry.of(8 << 20, 128 << 10));

        @Benchmark
        public int claimReadyRelease() {
            int chunk = pool.tryClaim();
            pool.markReady(chunk);
            pool.release(chunk);
            return chunk;
        }

        @Benchmark
        @Threads(2)
        public int claimReadyReleaseByTwo() {
            return claimReadyRelease();
        }
    }

    /** The written parts of a chunk, as ranges: 32 blocks of 4 KiB, in order, and every other one first. */
    @State(Scope.Thread)
    public static class RangePieces {
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

    /** The CRC32C of a chunk in memory off the heap, as both sides compute it. */
    @State(Scope.Thread)
    public static class CrcPieces {
        @Param({"16384", "131072", "1048576"})
        public int chunkBytes;

        private final CRC32C crc = new CRC32C();
        private ByteBuffer chunk;

        @Setup
        public void fill() {
            chunk = ByteBuffer.allocateDirect(chunkBytes);
            for (int i = 0; i < chunkBytes; i++) {
                chunk.put(i, (byte) (i * 31));
            }
        }

        @Benchmark
        public long crc32c() {
            crc.reset();
            chunk.clear();
            crc.update(chunk);
            return crc.getValue();
        }
    }

    /** The frames of a chunk, written and read in place, and a message of variable length, which is rare. */
    @State(Scope.Thread)
    public static class FramePieces {
        private final UnsafeBuffer buffer = new UnsafeBuffer(ByteBuffer.allocateDirect(4096));
        private final AdvertiseFrame advertise = new AdvertiseFrame();
        private final ReleaseFrame release = new ReleaseFrame();
        private final Message created =
                new DataMessage.Created(7, NodeKind.FILE, "/rank-3/context.3", 0600, 1000, 1000, "");
        private long order;

        @Benchmark
        public long advertise() {
            order++;
            AdvertiseFrame.encode(buffer, 0, 1, 7, order << 17, order, order << 17, 42, 1 << 17, (int) order, 5, 6);
            advertise.wrap(buffer, 0);
            return advertise.file() + advertise.offset() + advertise.order() + advertise.address() + advertise.crc32c();
        }

        @Benchmark
        public long release() {
            ReleaseFrame.encode(buffer, 0, 1, 7, ++order, 5);
            release.wrap(buffer, 0);
            return release.file() + release.order() + release.sourceChunk();
        }

        @Benchmark
        public Message created() throws ProtocolException {
            return ControlMessage.read(created.frame(1), 0);
        }
    }
}
