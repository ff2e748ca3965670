package io.ppmr.target.image;

import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.fuse.Errno;
import io.ppmr.protocol.data.FilePrefixFrame;
import org.agrona.UnsafeApi;

/**
 * An image file that is arriving (paper 1, section IV, step 4: the linked list of a process's chunks). It orders the
 * pieces and serves readers, who wait for missing bytes.
 *
 * <p>The session's agent reports advertisements, truncations and the end. The transport's threads report arrivals.
 * FUSE's threads read. The monitor guards all fields and is released while waiting. Every wait ends with the bytes, the
 * end of the file, or the failure of the migration. The session's watch fails the migration if there is no progress.
 *
 * <p>A <i>streamed</i> file is read from front to back: bytes are freed after they were read, except for the prefix. A
 * <i>retained</i> file keeps all bytes until the restart ends.
 */
public final class ArrivingFile {
    private static final long WAIT_SLICE_MS = 1_000;
    private static final long NO_READER = -1;

    private final int id;
    private final RankImage rank;
    private final PoolGeometry geometry;
    private final boolean streamed;
    private final ImageListener listener;

    private final FileBytes bytes;
    private final FilePrefix prefix;
    private String name;
    private long size;
    private boolean ended;
    private boolean removed;
    private boolean uncovered;
    private String failure;
    private long readTo = FilePrefix.BYTES;
    /** All bytes before this offset were written, or passed by a reader. */
    private long writtenTo;

    private int readersWaiting;
    private int openHandles;
    private long changes;
    private volatile long waitingOffset = NO_READER;

    /**
     * @param headAddress native address of the memory for its prefix
     * @param staging the storage for bytes that the pool does not keep
     */
    public ArrivingFile(
            int id,
            String name,
            RankImage rank,
            PoolGeometry geometry,
            long headAddress,
            Staging staging,
            ImageListener listener) {
        this.id = id;
        this.name = name;
        this.rank = rank;
        this.geometry = geometry;
        this.streamed = rank.streams(name);
        this.prefix = new FilePrefix(headAddress);
        this.listener = listener;
        this.bytes = new FileBytes(this, geometry, staging, new SlotEvents());
        updateCoverage();
    }

    public int id() {
        return id;
    }

    public RankImage rank() {
        return rank;
    }

    public boolean streamed() {
        return streamed;
    }

    /** Returns whether its writer may be blocked for any time, because no reader of another file waits for it. */
    boolean canBlockWriter() {
        return streamed && rank.writesStreamsConcurrently();
    }

    /** Returns whether unread bytes may be moved to staging; for the agent. */
    boolean mayStage() {
        return !streamed || rank.stagingAllowed();
    }

    /** The file's path, for messages. */
    public synchronized String name() {
        return name;
    }

    public synchronized void rename(String newName) {
        name = newName;
    }

    /** Returns the size known so far, which is final after the end of the file. */
    public synchronized long size() {
        return size;
    }

    public synchronized boolean hasEnded() {
        return ended;
    }

    // ---- the session's agent ----------------------------------------------------------------------------------

    /** Returns whether a chunk of the pool contains a window, or is granted for it. */
    public synchronized boolean isHeld(long window) {
        return bytes.isHeld(window);
    }

    /**
     * Returns whether bytes before a window were never written, so that no reader can reach it yet. Repeated calls
     * check each part of the file only once, except for windows whose bytes may be under way.
     */
    public synchronized boolean hasGapBefore(long window) {
        if (isUnreachable()) {
            return false;
        }
        if (readTo > FilePrefix.BYTES) {
            writtenTo = Math.max(writtenTo, readTo);
        }
        long start = window * geometry.chunkBytes();
        writtenTo = coveredTo(writtenTo, start);
        long at = writtenTo;
        while (at < start && at >= FilePrefix.BYTES && bytes.isExpected(geometry.windowOf(at))) {
            at = coveredTo((geometry.windowOf(at) + 1) * geometry.chunkBytes(), start);
        }
        return at < start;
    }

    /** Returns the end of the present bytes from {@code offset} on, or {@code limit} or more. */
    private long coveredTo(long offset, long limit) {
        long at = offset;
        while (at < limit) {
            long to = at < FilePrefix.BYTES ? prefix.coveredTo(at) : bytes.coveredTo(at, limit);
            if (to == at) {
                return at;
            }
            at = to;
        }
        return at;
    }

    /** Returns how much space staging needs for the missing bytes of a window. */
    synchronized long missingBytes(long window) {
        return bytes.missingBytes(window);
    }

    /** Assigns a chunk that is granted for a window of a stream: its bytes stay in the chunk, or must be staged. */
    public synchronized void hold(ReceiveSlot slot) {
        bytes.hold(slot);
        updateCoverage();
    }

    /**
     * Links a bounce buffer to the receive slot of its window, if there is one.
     *
     * @return whether there is one; it stays until the piece arrived or {@link #returnCredit} was called
     */
    public synchronized boolean addPiece(ReceiveSlot bounce) {
        return bytes.addPiece(bounce);
    }

    /** Handles an unused credit. */
    public synchronized void returnCredit(ReceiveSlot slot) {
        bytes.returnCredit(slot);
        updateCoverage();
    }

    /** Bytes were advertised: they belong to the file now, and their readers wait for the RDMA Read. */
    public synchronized void onPieceAnnounced(ReceiveSlot slot, long offset, int lengthBytes) throws ImageException {
        long end = offset + lengthBytes;
        if (streamed && offset < readTo) {
            throw new ImageException("file " + name + ": bytes from " + offset + " to " + end
                    + " were written again after a restart had read up to " + readTo
                    + "; a streamed image cannot be rewritten behind its reader: "
                    + "configure the checkpointer as retained");
        }
        bytes.put(offset, end, slot);
        size = Math.max(size, end);
        dropIfUnreachable();
    }

    /** Bytes of the prefix arrived in a frame. */
    public synchronized void onPrefixArrived(FilePrefixFrame frame) throws ImageException {
        if (streamed && prefix.contradicts(frame)) {
            throw new ImageException("file " + name + ": its first " + FilePrefix.BYTES
                    + " bytes were changed after a restart had read them; configure the checkpointer as retained");
        }
        size = Math.max(size, prefix.put(frame));
        signal();
    }

    /** The file was truncated or extended. */
    public synchronized void truncate(long newSize) throws ImageException {
        boolean removesReadBytes = newSize < prefix.readTo() || (readTo > FilePrefix.BYTES && newSize < readTo);
        if (streamed && removesReadBytes) {
            throw new ImageException("file " + name + " was truncated to " + newSize
                    + " bytes after a restart had read further; configure the checkpointer as retained");
        }
        bytes.remove(newSize, Long.MAX_VALUE);
        prefix.truncate(newSize);
        writtenTo = Math.min(writtenTo, newSize);
        size = newSize;
        signal();
    }

    /** Marks the file as complete: a read at {@code finalSize} is at its end. */
    public synchronized void end(long finalSize) throws ImageException {
        if (finalSize != size) {
            throw new ImageException("file " + name + " ends with " + finalSize + " bytes at the source but with "
                    + size + " here: a frame was lost or duplicated");
        }
        ended = true;
        signal();
        updateCoverage();
    }

    /** Its last name was removed, so it can no longer be opened. Open descriptors remain readable. */
    public synchronized void remove() {
        removed = true;
        dropIfUnreachable();
    }

    /** Counts an opened descriptor; returns false if the last name was removed in the meantime. */
    public synchronized boolean opened() {
        openHandles += removed ? 0 : 1;
        return !removed;
    }

    /** Counts a closed descriptor. */
    public synchronized void closed() {
        openHandles--;
        dropIfUnreachable();
    }

    private void dropIfUnreachable() {
        if (isUnreachable()) {
            removeBytes(0, Long.MAX_VALUE);
            updateCoverage();
        }
    }

    /** Removes bytes from the file. */
    private void removeBytes(long from, long to) {
        try {
            bytes.remove(from, to);
        } catch (ImageException e) {
            listener.stagingFailed(this, e.getMessage());
        }
    }

    /** Returns whether arriving bytes are discarded. */
    private boolean isUnreachable() {
        return removed && openHandles == 0;
    }

    /** Ends every wait and every later read with EIO. */
    public synchronized void fail(String reason) {
        failure = reason;
        signal();
    }

    /** Frees every receive slot; for the end of a session, after the transport ended. */
    public synchronized void discard() {
        bytes.discard();
        updateCoverage();
    }

    /** Returns true if a reader waits for a byte of this window. */
    public boolean readerWaitsIn(long window) {
        long offset = waitingOffset;
        return offset != NO_READER && geometry.windowOf(offset) == window;
    }

    public boolean readerWaits() {
        return waitingOffset != NO_READER;
    }

    /**
     * Returns whether the bytes of a receive slot may be moved to staging: they arrived, and no reader waits in its
     * window.
     */
    public synchronized boolean canEvict(ReceiveSlot slot) {
        return !readerWaitsIn(slot.window()) && bytes.canEvict(slot);
    }

    /**
     * Moves the bytes of a receive slot to staging, which has space for them, and frees it. Returns false if that is
     * not allowed.
     */
    public synchronized boolean evict(ReceiveSlot slot) {
        boolean possible = canEvict(slot);
        if (possible) {
            bytes.evict(slot);
            updateCoverage();
        }
        return possible;
    }

    // ---- the transport's threads ------------------------------------------------------------------------------

    /**
     * Bytes that were sent without an advertisement arrived in a receive slot. They belong to the file, and are
     * readable after {@link #onArrived}. Bytes that a reader skipped before that are discarded.
     */
    public synchronized void onPieceReceived(ReceiveSlot slot, long offset, int lengthBytes) throws ImageException {
        long end = offset + lengthBytes;
        if (streamed && offset < readTo && slot.wasSkippedFrom(offset)) {
            size = Math.max(size, end);
            return;
        }
        onPieceAnnounced(slot, offset, lengthBytes);
    }

    /** All bytes that were advertised or sent for a receive slot are in it. */
    public synchronized void onArrived(ReceiveSlot slot) {
        bytes.onArrived(slot);
        signal();
        updateCoverage();
    }

    // ---- FUSE's threads ---------------------------------------------------------------------------------------

    /**
     * Copies bytes to native memory, and waits for missing ones. Returns fewer bytes only at the end of the file.
     *
     * @return the number of copied bytes, or a negated errno
     */
    public synchronized int read(long address, int lengthBytes, long offset) {
        int copied = 0;
        while (copied < lengthBytes) {
            int step = failure != null
                    ? Errno.EIO.negated()
                    : copyNext(address + copied, lengthBytes - copied, offset + copied);
            if (step < 0) {
                return step;
            }
            if (step == 0 && atEnd(offset + copied)) {
                break;
            }
            if (step == 0 && !awaitChange(offset + copied)) {
                return Errno.EINTR.negated();
            }
            copied += step;
        }
        rank.addRead(copied);
        listener.bytesRead(copied);
        return copied;
    }

    /** Discards a range that the reader no longer needs. */
    public synchronized void punchHole(long offset, long lengthBytes) throws ImageException {
        bytes.remove(offset, offset + lengthBytes);
        updateCoverage();
    }

    /** Updates the reader count before the freed slot can be granted again. */
    private final class SlotEvents implements FileBytes.Events {
        @Override
        public void slotFree(ReceiveSlot slot) {
            updateCoverage();
            listener.slotFree(slot);
        }

        @Override
        public void stagingFree() {
            updateCoverage();
            listener.stagingFree();
        }

        @Override
        public void stagingFailed(ImageException reason) {
            listener.stagingFailed(ArrivingFile.this, reason.getMessage());
        }
    }

    private void updateCoverage() {
        boolean now = streamed && !ended && !isUnreachable() && !bytes.isCovered(readTo);
        if (now != uncovered) {
            uncovered = now;
            listener.uncoveredStreams(now ? 1 : -1);
        }
    }

    private boolean atEnd(long offset) {
        return ended && offset >= size;
    }

    /** Copies one run of present bytes. Returns 0 if the first byte did not arrive, or the file ends here. */
    private int copyNext(long address, int lengthBytes, long offset) {
        if (offset < FilePrefix.BYTES) {
            int inPrefix = (int) Math.min(lengthBytes, FilePrefix.BYTES - offset);
            int length = prefix.copy(address, inPrefix, offset);
            return length > 0 ? length : copyHole(address, inPrefix, offset, prefix.nextFrom(offset));
        }
        if (streamed && offset < readTo && offset < size) {
            listener.seekRefused(this, offset);
            return Errno.ESPIPE.negated();
        }
        if (!bytes.find(offset, lengthBytes)) {
            return copyHole(address, lengthBytes, offset, bytes.nextStart(offset));
        }
        if (!bytes.foundArrived()) {
            return 0;
        }
        int length = (int) Math.min(lengthBytes, bytes.foundBytes());
        try {
            bytes.copyFound(address, length, offset);
        } catch (ImageException e) {
            listener.stagingFailed(this, e.getMessage());
            return Errno.EIO.negated();
        }
        if (streamed && offset > readTo) {
            bytes.skip(readTo, offset);
        }
        advanceReader(offset + length);
        return length;
    }

    /** Copies zeros for a gap, but only after the end of the file: before that the gap may be filled. */
    private int copyHole(long address, int lengthBytes, long offset, long gapEnd) {
        if (!ended || offset >= size) {
            return 0;
        }
        int length = (int) Math.min(lengthBytes, Math.min(gapEnd, size) - offset);
        UnsafeApi.setMemory(address, length, (byte) 0);
        advanceReader(offset + length);
        return length;
    }

    private void advanceReader(long to) {
        if (streamed && to > readTo) {
            // Includes bytes that a forward seek skipped, because a stream is not read twice.
            long from = readTo;
            readTo = to;
            removeBytes(from, to);
        }
        updateCoverage();
    }

    private boolean awaitChange(long offset) {
        readersWaiting++;
        waitingOffset = offset;
        rank.readerBlocked();
        listener.readerWaits(this);
        long startNs = System.nanoTime();
        try {
            long seen = changes;
            long deadlineNs = startNs + WAIT_SLICE_MS * 1_000_000;
            while (changes == seen && System.nanoTime() - deadlineNs < 0) {
                wait(WAIT_SLICE_MS);
            }
            return true;
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return false;
        } finally {
            listener.readerWaited(this, System.nanoTime() - startNs);
            rank.readerResumed();
            readersWaiting--;
            if (readersWaiting == 0) {
                waitingOffset = NO_READER;
            }
        }
    }

    private void signal() {
        changes++;
        notifyAll();
    }
}
