package io.ppmr.target.image;

import io.ppmr.bufferpool.PoolGeometry;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.Arrays;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Room beside the pool for what must be kept longer than the pool can: places for one window each, and the memory for
 * the indices that know which window lies where. On the heap a place takes one bit.
 *
 * <p>A window is a {@link ReceiveSlot} only while bytes are on their way into it; then it is put to rest, and its
 * file's {@link WindowIndex} alone knows of it. So there are as many receive slots of staging as there are bounce
 * buffers, and they go round.
 *
 * <p>One for each session. The session's agent claims and closes; any thread releases and puts to rest, and may use the
 * memory of a place that its file has. The lock is held for moments, never while the file grows.
 */
public final class StagingArea implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(StagingArea.class);
    private static final int STEP_BYTES = 16 * 1024 * 1024;
    private static final long MAX_REGION_BYTES = 1L << 30;

    /** The file behind a staging area. Owned by the session's agent. */
    interface Backing extends AutoCloseable {
        /**
         * Makes the next bytes usable.
         *
         * @return the native address of the byte at {@code start}; those of a region follow each other
         */
        long extend(long start, int lengthBytes) throws IOException;

        @Override
        void close();
    }

    private final String where;
    private final PoolGeometry geometry;
    private final long limitBytes;
    private final long regionBytes;
    private final Backing backing;
    private final IndexMemory index;
    private volatile long[] regionAddresses = new long[0];
    private String exhausted = "";
    private String remedy = "staging.limit";

    // Guarded by the monitor.
    private final ArrayDeque<ReceiveSlot> idle = new ArrayDeque<>();
    private long[] freePlaces = new long[2];
    private int firstFreeWord;
    private int freeCount;
    private int placeCount;

    /**
     * @param directory where the file is made; a directory in memory by default
     * @param limitBytes how large it may become, 0 for no staging
     * @param indexLimitBytes how much memory may be taken to know what lies where
     */
    public StagingArea(Path directory, PoolGeometry geometry, long limitBytes, long indexLimitBytes) {
        this(
                directory.toString(),
                geometry,
                limitBytes,
                indexLimitBytes,
                new StagingFile(directory, regionBytes(limitBytes)));
    }

    /** @param backing what its bytes are kept in; closed with it */
    StagingArea(String where, PoolGeometry geometry, long limitBytes, long indexLimitBytes, Backing backing) {
        this.where = where;
        this.geometry = geometry;
        this.limitBytes = limitBytes;
        this.regionBytes = regionBytes(limitBytes);
        this.backing = backing;
        this.index = new IndexMemory(indexLimitBytes);
    }

    /** Gives the memory that the index of an image of this size takes, in whatever order its windows are written. */
    public static long indexBytes(long imageBytes, int chunkBytes) {
        return IndexMemory.bytesFor(imageBytes, chunkBytes);
    }

    private static long regionBytes(long limitBytes) {
        return Math.min(MAX_REGION_BYTES, (limitBytes / STEP_BYTES + 1) * STEP_BYTES);
    }

    // ---- the session's agent ----------------------------------------------------------------------------------

    /** A free place, or null if there is none and none can be made; {@link #whyNone} says why. */
    ReceiveSlot claim() {
        if (limitBytes > 0 && !index.hasRoom()) {
            exhausted = "the index of staging is limited to " + index.limitBytes() + " bytes";
            remedy = "staging.index";
            return null;
        }
        ReceiveSlot claimed = claimFree();
        return claimed == null && grow() ? claimFree() : claimed;
    }

    /** Returns the reason why {@link #claim} gave nothing, or says that it never did so. */
    String whyNone() {
        return exhausted.isEmpty() ? "staging is not used up" : exhausted;
    }

    /** The key of the configuration that would have helped. */
    String remedy() {
        return remedy;
    }

    private boolean grow() {
        long haveBytes = (long) placeCount * geometry.chunkBytes();
        int newBytes =
                (int) (Math.min(STEP_BYTES, limitBytes - haveBytes) / geometry.chunkBytes()) * geometry.chunkBytes();
        if (newBytes <= 0) {
            exhausted = "staging is limited to " + limitBytes + " bytes";
            remedy = "staging.limit";
            return false;
        }
        try {
            long address = backing.extend(haveBytes, newBytes);
            int region = (int) (haveBytes / regionBytes);
            if (region == regionAddresses.length) {
                long[] grown = Arrays.copyOf(regionAddresses, region + 1);
                grown[region] = address;
                regionAddresses = grown;
            }
            addPlaces(newBytes / geometry.chunkBytes());
            return true;
        } catch (IOException | UncheckedIOException e) {
            exhausted = "staging in " + where + " cannot grow beyond " + haveBytes + " bytes: " + e.getMessage();
            remedy = "staging.limit";
            LOG.warn("{}", exhausted);
            return false;
        }
    }

    // ---- any thread -------------------------------------------------------------------------------------------

    /** Memory for indices. */
    IndexMemory index() {
        return index;
    }

    /** Native address of a place. */
    long address(int place) {
        long at = (long) place * geometry.chunkBytes();
        return regionAddresses[(int) (at / regionBytes)] + at % regionBytes;
    }

    /** Bytes of staging in use. */
    public synchronized long usedBytes() {
        return (long) (placeCount - freeCount) * geometry.chunkBytes();
    }

    /** Bytes of memory that the index takes. */
    public long indexBytes() {
        return index.takenBytes();
    }

    /** Frees a place that is a receive slot. */
    synchronized void release(ReceiveSlot slot) {
        free(slot.place());
        idle.push(slot);
    }

    /** Frees a place that rests. */
    synchronized void release(int place) {
        free(place);
    }

    /** Its place stays in use; the receive slot may be another's. */
    synchronized void putToRest(ReceiveSlot slot) {
        idle.push(slot);
    }

    /** Makes a receive slot of a place that rests. */
    synchronized ReceiveSlot wake(int place) {
        ReceiveSlot slot = idle.isEmpty() ? new ReceiveSlot() : idle.pop();
        slot.lieAt(place, address(place));
        return slot;
    }

    private synchronized ReceiveSlot claimFree() {
        while (firstFreeWord < freePlaces.length && freePlaces[firstFreeWord] == 0) {
            firstFreeWord++;
        }
        if (firstFreeWord == freePlaces.length) {
            return null;
        }
        long lowest = Long.lowestOneBit(freePlaces[firstFreeWord]);
        freePlaces[firstFreeWord] ^= lowest;
        freeCount--;
        return wake(firstFreeWord * Long.SIZE + Long.numberOfTrailingZeros(lowest));
    }

    private synchronized void addPlaces(int count) {
        int words = (placeCount + count + Long.SIZE - 1) / Long.SIZE;
        if (words > freePlaces.length) {
            freePlaces = Arrays.copyOf(freePlaces, Math.max(words, freePlaces.length + freePlaces.length / 2));
        }
        for (int added = 0; added < count; added++) {
            free(placeCount++);
        }
    }

    private void free(int place) {
        int word = place / Long.SIZE;
        freePlaces[word] |= 1L << place;
        firstFreeWord = Math.min(firstFreeWord, word);
        freeCount++;
    }

    @Override
    public void close() {
        backing.close();
        index.close();
    }
}
