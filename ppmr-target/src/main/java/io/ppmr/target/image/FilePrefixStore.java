package io.ppmr.target.image;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import org.agrona.concurrent.UnsafeBuffer;

/**
 * Memory for the prefixes of all files of a migration, outside of the pool and with a separate budget. Owned by the
 * session's agent; kept for the next migration.
 */
public final class FilePrefixStore {
    private static final int PREFIXES_PER_SLAB = 256;

    private final int maxPrefixes;
    private final List<UnsafeBuffer> slabs = new ArrayList<>();
    private int used;

    /** @param budgetBytes the memory limit for all prefixes together */
    public FilePrefixStore(long budgetBytes) {
        maxPrefixes = (int) Math.min(budgetBytes / FilePrefix.BYTES, Integer.MAX_VALUE / FilePrefix.BYTES);
    }

    /** Returns the native address of the memory for one prefix. */
    public long claim(String fileName) throws ImageException {
        if (used == maxPrefixes) {
            throw new ImageException("file " + fileName + ": the image has more than " + maxPrefixes
                    + " files, whose prefixes fill their budget: raise prefixes.limit of the target");
        }
        int slab = used / PREFIXES_PER_SLAB;
        if (slab == slabs.size()) {
            slabs.add(new UnsafeBuffer(ByteBuffer.allocateDirect(PREFIXES_PER_SLAB * FilePrefix.BYTES)));
        }
        return slabs.get(slab).addressOffset() + (long) (used++ % PREFIXES_PER_SLAB) * FilePrefix.BYTES;
    }

    /** Frees everything. Addresses that were returned before must no longer be used. */
    public void reset() {
        used = 0;
    }
}
