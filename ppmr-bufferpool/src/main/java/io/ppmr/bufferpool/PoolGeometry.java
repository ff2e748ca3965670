package io.ppmr.bufferpool;

/**
 * The size of a pool and of its chunks.
 *
 * @param chunkBytes a power of two from 16 KiB to 4 MiB; FUSE transfers at most 128 KiB in one request
 * @param chunkCount at least {@link #MIN_CHUNKS}
 */
public record PoolGeometry(int chunkBytes, int chunkCount) {
    public static final int MIN_CHUNK_BYTES = 16 * 1024;
    public static final int MAX_CHUNK_BYTES = 4 * 1024 * 1024;
    public static final int MIN_CHUNKS = 4;
    /** Number of larger chunks that a pool must have for the larger chunk to be chosen. */
    private static final int CHOSEN_CHUNKS = 32;

    private static final int LEAST_CHOSEN_BYTES = 128 * 1024;
    private static final int MOST_CHOSEN_BYTES = 256 * 1024;

    public PoolGeometry {
        if (chunkBytes < MIN_CHUNK_BYTES || chunkBytes > MAX_CHUNK_BYTES || Integer.bitCount(chunkBytes) != 1) {
            throw new IllegalArgumentException(
                    "chunk of " + chunkBytes + " bytes: it must be a power of two from 16 KiB to 4 MiB");
        }
        if (chunkCount < MIN_CHUNKS || (long) chunkBytes * chunkCount > Integer.MAX_VALUE - 8192L) {
            throw new IllegalArgumentException("pool of " + chunkCount + " chunks of " + chunkBytes
                    + " bytes: it must have at least " + MIN_CHUNKS + " chunks and be smaller than 2 GiB");
        }
    }

    /** The geometry of a pool of {@code poolBytes}, which must be a multiple of the chunk. */
    public static PoolGeometry of(long poolBytes, int chunkBytes) {
        if (chunkBytes <= 0 || poolBytes % chunkBytes != 0) {
            throw new IllegalArgumentException(
                    "pool of " + poolBytes + " bytes: it must be a multiple of the chunk, " + chunkBytes + " bytes");
        }
        return new PoolGeometry(chunkBytes, Math.toIntExact(poolBytes / chunkBytes));
    }

    /**
     * The geometry of a pool whose chunk size depends only on the pool's size. So two nodes with equal pools choose the
     * same chunk size. A pool that holds at least 32 chunks of 256 KiB gets these, and a smaller pool gets 128 KiB. A
     * pool that is not a multiple of that chunk, or would have fewer than four, gets the largest smaller chunk for
     * which both hold.
     */
    public static PoolGeometry choose(long poolBytes) {
        long most = Math.max(LEAST_CHOSEN_BYTES, Math.min(MOST_CHOSEN_BYTES, poolBytes / CHOSEN_CHUNKS));
        int chunkBytes = (int) Long.highestOneBit(most);
        while (chunkBytes > MIN_CHUNK_BYTES && (poolBytes % chunkBytes != 0 || poolBytes / chunkBytes < MIN_CHUNKS)) {
            chunkBytes /= 2;
        }
        return of(poolBytes, chunkBytes);
    }

    /** Total bytes of all chunks. */
    public long poolBytes() {
        return (long) chunkBytes * chunkCount;
    }

    /** This geometry with more chunks, for a pool that also holds the chunks of another consumer. */
    public PoolGeometry plus(int chunks) {
        return new PoolGeometry(chunkBytes, chunkCount + chunks);
    }

    /**
     * Returns the number of the file window that contains an offset: window {@code n} starts at {@code n * chunkBytes}.
     */
    public long windowOf(long offset) {
        return offset >>> Integer.numberOfTrailingZeros(chunkBytes);
    }

    /** Returns the position of an offset in its window, and so in its chunk. */
    public int offsetInWindow(long offset) {
        return (int) (offset & (chunkBytes - 1));
    }
}
