package io.ppmr.bench.pieces;

import java.nio.ByteBuffer;
import java.util.zip.CRC32C;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;

/** The CRC32C of a chunk in memory off the heap, as both sides take it. */
@State(Scope.Thread)
public class CrcPieces {
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
