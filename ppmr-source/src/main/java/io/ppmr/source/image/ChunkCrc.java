package io.ppmr.source.image;

import io.ppmr.bufferpool.BufferPool;
import java.nio.ByteBuffer;
import java.util.zip.CRC32C;

/** The CRC32C of a part of a chunk; allocates nothing. For one thread at a time. */
final class ChunkCrc {
    private final CRC32C crc = new CRC32C();

    /** Of the bytes from {@code from} to {@code to} of a chunk that the caller owns. */
    int of(BufferPool pool, int chunk, int from, int to) {
        ByteBuffer bytes = pool.buffer(chunk);
        bytes.limit(to).position(from);
        crc.reset();
        crc.update(bytes);
        return (int) crc.getValue();
    }
}
