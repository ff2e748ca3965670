package io.ppmr.target.image;

import io.ppmr.bufferpool.ByteRangeSet;
import io.ppmr.linux.LibC;

/**
 * The bytes of one image file that the pool does not keep: an unnamed sparse file, in which each byte has its own
 * offset. The kernel maps the pages. This class tracks which bytes arrived. Complete pages are bits of a {@link
 * PageMap}. For incomplete pages the runs of their bytes are stored until the page is complete.
 *
 * <p>Guarded by the image file's lock. Its file is created with the first byte.
 */
final class StagedFile {
    private static final int NOT_OPEN = -1;
    private static final int PAGE = PageMap.PAGE_BYTES;

    private final Staging staging;
    private final PageMap whole;
    private final ByteRangeSet parts = new ByteRangeSet();
    private int descriptor = NOT_OPEN;

    StagedFile(Staging staging) {
        this.staging = staging;
        this.whole = new PageMap(staging);
    }

    // ---- present bytes ---------------------------------------------------------------------------------------

    /**
     * Returns the end of the present bytes from {@code offset} on, or a position after {@code limit}; {@code offset} if
     * there is none.
     */
    long coveredTo(long offset, long limit) {
        long at = offset;
        while (at < limit && descriptor != NOT_OPEN) {
            long to = whole.has(at / PAGE) ? whole.nextOut(at / PAGE, limit / PAGE + 1) * PAGE : parts.coveredTo(at);
            if (to == at) {
                break;
            }
            at = to;
        }
        return at;
    }

    /** Returns the first present byte from {@code offset} on, or {@link Long#MAX_VALUE}. */
    long nextFrom(long offset) {
        long page = whole.nextIn(offset / PAGE);
        long inPage = page == Long.MAX_VALUE ? page : Math.max(offset, page * PAGE);
        return Math.min(inPage, parts.nextFrom(offset));
    }

    /** Returns how many additional bytes of storage a range of whole pages needs when all its bytes arrive. */
    long missingBytes(long from, long to) {
        long missing = 0;
        for (long page = from / PAGE; page < to / PAGE; page++) {
            missing += usesStorage(page) ? 0 : PAGE;
        }
        return missing;
    }

    /** Returns whether a page uses storage. */
    private boolean usesStorage(long page) {
        return whole.has(page) || isIncomplete(page);
    }

    private boolean isIncomplete(long page) {
        return parts.nextFrom(page * PAGE) < (page + 1) * PAGE;
    }

    // ---- changes ---------------------------------------------------------------------------------------------

    /** Writes bytes from native memory. */
    void write(long address, int lengthBytes, long offset) throws ImageException {
        if (descriptor == NOT_OPEN) {
            descriptor = staging.open();
        }
        int claimed = claimParts(offset, offset + lengthBytes);
        int before = parts.rangeCount();
        try {
            for (int done = 0; done < lengthBytes; ) {
                long written = LibC.CALLS.pwrite(descriptor, address + done, lengthBytes - done, offset + done);
                if (written <= 0) {
                    throw staging.failure("pwrite", LibC.describe(LibC.errno()));
                }
                done += (int) written;
            }
            add(offset, offset + lengthBytes);
        } finally {
            staging.releaseParts(claimed - (parts.rangeCount() - before));
        }
    }

    /** Claims the runs that a change of a range may add: one for each end of it that lies within a page. */
    private int claimParts(long start, long end) throws ImageException {
        int most = (start % PAGE == 0 ? 0 : 1) + (end % PAGE == 0 || end == Long.MAX_VALUE ? 0 : 1);
        staging.claimParts(most);
        return most;
    }

    /** Copies present bytes to native memory. */
    void read(long address, int lengthBytes, long offset) throws ImageException {
        for (int done = 0; done < lengthBytes; ) {
            long read = LibC.CALLS.pread(descriptor, address + done, lengthBytes - done, offset + done);
            if (read == 0) {
                throw staging.failure("pread", "the file is shorter than the written bytes");
            }
            if (read < 0) {
                throw staging.failure("pread", LibC.describe(LibC.errno()));
            }
            done += (int) read;
        }
    }

    /**
     * Removes the bytes from {@code start} up to, not including, {@code end}, and frees their storage. Changes nothing
     * if it throws because of too many pieces.
     *
     * @return whether storage was freed
     */
    boolean remove(long start, long end) throws ImageException {
        if (descriptor == NOT_OPEN || nextFrom(start) >= end) {
            return false;
        }
        int claimed = claimParts(start, end);
        int before = parts.rangeCount();
        long freed = removePages(start, end);
        staging.releaseParts(claimed - (parts.rangeCount() - before));
        staging.addFreed(freed * PAGE);
        if (whole.isEmpty() && parts.rangeCount() == 0) {
            staging.closeLater(descriptor);
            descriptor = NOT_OPEN;
        } else if (freed > 0) {
            punch(start / PAGE * PAGE, end);
        }
        return freed > 0;
    }

    private long removePages(long start, long end) {
        long firstWhole = (start + PAGE - 1) / PAGE;
        long lastWhole = end == Long.MAX_VALUE ? Long.MAX_VALUE / PAGE : end / PAGE;
        long freed = 0;
        if (firstWhole > start / PAGE) {
            freed += cut(start / PAGE, start, Math.min(end, firstWhole * PAGE));
        }
        if (lastWhole >= firstWhole && end != Long.MAX_VALUE && end % PAGE != 0) {
            freed += cut(lastWhole, lastWhole * PAGE, end);
        }
        if (lastWhole > firstWhole) {
            freed += whole.remove(firstWhole, lastWhole);
            freed += removeParts(firstWhole, lastWhole);
        }
        return freed;
    }

    /** Removes all bytes, and closes the file. */
    void close() {
        if (descriptor == NOT_OPEN) {
            return;
        }
        int before = parts.rangeCount();
        long pages = whole.remove(0, Long.MAX_VALUE / PAGE) + removeParts(0, Long.MAX_VALUE / PAGE);
        staging.releaseParts(before);
        staging.addFreed(pages * PAGE);
        LibC.CALLS.close(descriptor);
        descriptor = NOT_OPEN;
    }

    private void add(long start, long end) throws ImageException {
        long firstWhole = (start + PAGE - 1) / PAGE;
        long lastWhole = end / PAGE;
        long added = 0;
        if (firstWhole > lastWhole) {
            added += fill(start / PAGE, start, end);
        } else {
            if (start < firstWhole * PAGE) {
                added += fill(start / PAGE, start, firstWhole * PAGE);
            }
            if (end > lastWhole * PAGE) {
                added += fill(lastWhole, lastWhole * PAGE, end);
            }
            if (lastWhole > firstWhole) {
                added -= removeParts(firstWhole, lastWhole);
                added += whole.add(firstWhole, lastWhole);
            }
        }
        staging.addWritten(end - start, added * PAGE);
    }

    /** Adds a part of one page; returns how many additional pages use storage. */
    private long fill(long page, long start, long end) throws ImageException {
        if (whole.has(page)) {
            return 0;
        }
        long before = isIncomplete(page) ? 1 : 0;
        parts.add(start, end);
        if (parts.coveredTo(page * PAGE) >= (page + 1) * PAGE) {
            parts.remove(page * PAGE, (page + 1) * PAGE);
            whole.add(page, page + 1);
        }
        return 1 - before;
    }

    /** Removes a part of one page; returns how many pages no longer use storage. */
    private long cut(long page, long start, long end) {
        if (!usesStorage(page)) {
            return 0;
        }
        if (whole.remove(page, page + 1) == 1) {
            parts.add(page * PAGE, (page + 1) * PAGE);
        }
        parts.remove(start, end);
        return isIncomplete(page) ? 0 : 1;
    }

    /** Removes the runs of a range of pages; returns the number of their pages. */
    private long removeParts(long firstPage, long lastPage) {
        long pages = 0;
        for (long at = parts.nextFrom(firstPage * PAGE); at < lastPage * PAGE; ) {
            pages++;
            at = parts.nextFrom((at / PAGE + 1) * PAGE);
        }
        parts.remove(firstPage * PAGE, lastPage * PAGE);
        return pages;
    }

    /** Has the filesystem free the pages of a range that is no longer needed. */
    private void punch(long start, long end) throws ImageException {
        long from = usesStorage(start / PAGE) ? start + PAGE : start;
        if (nextFrom(from) != Long.MAX_VALUE) {
            long to = end % PAGE != 0 && usesStorage(end / PAGE) ? end / PAGE * PAGE : (end + PAGE - 1) / PAGE * PAGE;
            staging.punch(descriptor, from, to);
        } else if (LibC.CALLS.ftruncate(descriptor, from) != 0) {
            throw staging.failure("ftruncate", LibC.describe(LibC.errno()));
        }
    }
}
