package io.ppmr.target.image;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import org.agrona.concurrent.UnsafeBuffer;

/**
 * Room for the heads of all files of a migration, outside the pool and with a budget of its own. Owned by the session's
 * agent; kept for the next migration.
 */
public final class FilePrefixStore {
    private static final int PREFIXES_A_SLAB = 256;

    private final int maxHeads;
    private final List<UnsafeBuffer> slabs = new ArrayList<>();
    private int used;

    /** @param budgetBytes how much memory all heads together may take */
    public FilePrefixStore(long budgetBytes) {
        maxHeads = (int) Math.min(budgetBytes / FilePrefix.BYTES, Integer.MAX_VALUE / FilePrefix.BYTES);
    }

    /** Native address of room for one head. */
    public long claim(String fileName) throws ImageException {
        if (used == maxHeads) {
            throw new ImageException("file " + fileName + ": the image has more than " + maxHeads
                    + " files, whose heads fill their budget: raise prefixes.limit of the target");
        }
        int slab = used / PREFIXES_A_SLAB;
        if (slab == slabs.size()) {
            slabs.add(new UnsafeBuffer(ByteBuffer.allocateDirect(PREFIXES_A_SLAB * FilePrefix.BYTES)));
        }
        return slabs.get(slab).addressOffset() + (long) (used++ % PREFIXES_A_SLAB) * FilePrefix.BYTES;
    }

    /** Frees everything. Addresses that were given out before must no longer be used. */
    public void reset() {
        used = 0;
    }
}
