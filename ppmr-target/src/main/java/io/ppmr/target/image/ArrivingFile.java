package io.ppmr.target.image;

import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.fuse.Errno;
import io.ppmr.protocol.data.FilePrefixFrame;
import org.agrona.UnsafeApi;

/**
 * One image file on its way (paper 1, section IV, step 4: the linked list of a process's chunks): puts the pieces in
 * order and gives them to readers, who wait for what has not come.
 *
 * <p>Written to by the session's agent (what is advertised, cut, ended) and by the transport's threads (what has
 * arrived), read by FUSE's threads; its monitor guards all of it and is given up while waiting. Every wait ends with
 * the bytes, the end of the file, or the failure of the migration, which the session's watch causes when nothing moves.
 *
 * <p>A <i>streamed</i> file is read front to back: what has been read is free at once, except for the head. A
 * <i>retained</i> file keeps everything until the restart is over.
 */
public final class ArrivingFile {
    private static final long WAIT_SLICE_MS = 1_000;
    private static final long NOBODY_WAITS = -1;

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
    private long handedTo = FilePrefix.BYTES;
    /** Up to here every byte was written, or a reader has gone past it. */
    private long writtenTo;

    private int readersWaiting;
    private int openHandles;
    private long changes;
    private volatile long waitingOffset = NOBODY_WAITS;

    /**
     * @param headAddress native address of room for its prefix
     * @param staging where bytes are kept that the pool does not keep
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
        noteCoverage();
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

    /** Returns whether its writer can be held back for as long as it takes: no reader of another file waits for it. */
    boolean canBlockWriter() {
        return streamed && rank.streamsAtOnce();
    }

    /** Returns whether what is not read may go to staging; for the agent. */
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

    /** The size known so far; the true one once the file has ended. */
    public synchronized long size() {
        return size;
    }

    public synchronized boolean hasEnded() {
        return ended;
    }

    // ---- the session's agent ----------------------------------------------------------------------------------

    /** Returns whether a chunk of the pool holds a window, or is granted for it. */
    public synchronized boolean isHeld(long window) {
        return bytes.isHeld(window);
    }

    /**
     * Returns whether bytes before a window were never written, so that no reader can come to it yet. Each part of the
     * file is looked at once, however often this is asked, except for windows whose bytes may be on their way.
     */
    public synchronized boolean hasGapBefore(long window) {
        if (isUnreachable()) {
            return false;
        }
        if (handedTo > FilePrefix.BYTES) {
            writtenTo = Math.max(writtenTo, handedTo);
        }
        long start = window * geometry.chunkBytes();
        writtenTo = coveredTo(writtenTo, start);
        long at = writtenTo;
        while (at < start && at >= FilePrefix.BYTES && bytes.isExpected(geometry.windowOf(at))) {
            at = coveredTo((geometry.windowOf(at) + 1) * geometry.chunkBytes(), start);
        }
        return at < start;
    }

    /** Gives the end of the bytes that are there from {@code offset} on, or {@code limit} or more. */
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

    /** Returns how much room staging needs for what is still missing of a window. */
    synchronized long missingBytes(long window) {
        return bytes.missingBytes(window);
    }

    /** This chunk is granted for a window of a stream: it holds the window, or its bytes must be staged. */
    public synchronized void hold(ReceiveSlot slot) {
        bytes.hold(slot);
        noteCoverage();
    }

    /**
     * Points a bounce buffer at the receive slot that holds its window, if one does.
     *
     * @return whether one does; it stays until the piece has come or {@link #giveUp} was called
     */
    public synchronized boolean addPiece(ReceiveSlot bounce) {
        return bytes.addPiece(bounce);
    }

    /** A credit was not needed. */
    public synchronized void giveUp(ReceiveSlot slot) {
        bytes.giveUp(slot);
        noteCoverage();
    }

    /** Bytes were advertised: they are part of the file now, and readers of them wait for the pull. */
    public synchronized void onPieceAnnounced(ReceiveSlot slot, long offset, int lengthBytes) throws ImageException {
        long end = offset + lengthBytes;
        if (streamed && offset < handedTo) {
            throw new ImageException("file " + name + ": bytes from " + offset + " to " + end
                    + " were written again after a restart had read up to " + handedTo
                    + "; a streamed image cannot be rewritten behind its reader: "
                    + "configure the checkpointer as retained");
        }
        bytes.put(offset, end, slot);
        size = Math.max(size, end);
        dropIfUnreachable();
    }

    /** Bytes of the head have come with a frame. */
    public synchronized void prefixArrived(FilePrefixFrame frame) throws ImageException {
        if (streamed && prefix.contradicts(frame)) {
            throw new ImageException("file " + name + ": its first " + FilePrefix.BYTES
                    + " bytes were changed after a restart had read them; configure the checkpointer as retained");
        }
        size = Math.max(size, prefix.put(frame));
        signal();
    }

    /** The file was cut or extended. */
    public synchronized void truncated(long newSize) throws ImageException {
        boolean cutsHanded = newSize < prefix.handedTo() || (handedTo > FilePrefix.BYTES && newSize < handedTo);
        if (streamed && cutsHanded) {
            throw new ImageException("file " + name + " was cut to " + newSize
                    + " bytes after a restart had read further; configure the checkpointer as retained");
        }
        bytes.remove(newSize, Long.MAX_VALUE);
        prefix.truncate(newSize);
        writtenTo = Math.min(writtenTo, newSize);
        size = newSize;
        signal();
    }

    /** Marks the file complete: reads at {@code finalSize} are at its end. */
    public synchronized void end(long finalSize) throws ImageException {
        if (finalSize != size) {
            throw new ImageException("file " + name + " ends with " + finalSize + " bytes at the source but with "
                    + size + " here: a frame was lost or doubled");
        }
        ended = true;
        signal();
        noteCoverage();
    }

    /** Its last name was removed: it can no longer be opened. Open descriptors can still be read. */
    public synchronized void remove() {
        removed = true;
        dropIfUnreachable();
    }

    /** Counts a descriptor that is opened; false if the last name was removed in the meantime. */
    public synchronized boolean opened() {
        openHandles += removed ? 0 : 1;
        return !removed;
    }

    /** Counts a descriptor that was closed. */
    public synchronized void closed() {
        openHandles--;
        dropIfUnreachable();
    }

    private void dropIfUnreachable() {
        if (isUnreachable()) {
            forget(0, Long.MAX_VALUE);
            noteCoverage();
        }
    }

    /** These bytes are the file's no more. */
    private void forget(long from, long to) {
        try {
            bytes.remove(from, to);
        } catch (ImageException e) {
            listener.stagingFailed(this, e.getMessage());
        }
    }

    /** Its bytes are dropped as they come. */
    private boolean isUnreachable() {
        return removed && openHandles == 0;
    }

    /** Ends every wait and every later read with EIO. */
    public synchronized void fail(String reason) {
        failure = reason;
        signal();
    }

    /** Frees every receive slot; for the end of a session, after the transport has ended. */
    public synchronized void discard() {
        bytes.discard();
        noteCoverage();
    }

    /** Returns true if a reader waits for a byte of this window. */
    public boolean readerWaitsIn(long window) {
        long offset = waitingOffset;
        return offset != NOBODY_WAITS && geometry.windowOf(offset) == window;
    }

    public boolean readerWaits() {
        return waitingOffset != NOBODY_WAITS;
    }

    /** Returns whether a receive slot may move to staging: its bytes arrived, and no reader waits in its window. */
    public synchronized boolean canEvict(ReceiveSlot slot) {
        return !readerWaitsIn(slot.window()) && bytes.canEvict(slot);
    }

    /** Moves a receive slot's bytes to staging, which has room for them, and frees it; false if it may not. */
    public synchronized boolean evict(ReceiveSlot slot) {
        boolean possible = canEvict(slot);
        if (possible) {
            bytes.evict(slot);
            noteCoverage();
        }
        return possible;
    }

    // ---- the transport's threads ------------------------------------------------------------------------------

    /**
     * Bytes that were sent without an advertisement arrived in a receive slot: they are part of the file, and can be
     * read after {@link #arrived}. Bytes that a reader skipped in the meantime are dropped.
     */
    public synchronized void onPieceReceived(ReceiveSlot slot, long offset, int lengthBytes) throws ImageException {
        long end = offset + lengthBytes;
        if (streamed && offset < handedTo && slot.wasSkippedFrom(offset)) {
            size = Math.max(size, end);
            return;
        }
        onPieceAnnounced(slot, offset, lengthBytes);
    }

    /** The bytes that were advertised for a receive slot, or came unasked, are in it. */
    public synchronized void arrived(ReceiveSlot slot) {
        bytes.arrived(slot);
        signal();
        noteCoverage();
    }

    // ---- FUSE's threads ---------------------------------------------------------------------------------------

    /**
     * Copies bytes to native memory, waiting for those that have not come. Short only at the end of the file.
     *
     * @return the bytes copied, or a negated errno
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
        listener.bytesRead(copied);
        return copied;
    }

    /** Throws away a range that the reader no longer needs, where it is kept. */
    public synchronized void punchHole(long offset, long lengthBytes) throws ImageException {
        bytes.remove(offset, offset + lengthBytes);
        noteCoverage();
    }

    /** Updates the reader count before the freed slot can be granted again. */
    private final class SlotEvents implements FileBytes.Events {
        @Override
        public void slotFree(ReceiveSlot slot) {
            noteCoverage();
            listener.slotFree(slot);
        }

        @Override
        public void stagingFree() {
            noteCoverage();
            listener.stagingFree();
        }

        @Override
        public void stagingFailed(ImageException reason) {
            listener.stagingFailed(ArrivingFile.this, reason.getMessage());
        }
    }

    private void noteCoverage() {
        boolean now = streamed && !ended && !isUnreachable() && !bytes.isCovered(handedTo);
        if (now != uncovered) {
            uncovered = now;
            listener.uncoveredStreams(now ? 1 : -1);
        }
    }

    private boolean atEnd(long offset) {
        return ended && offset >= size;
    }

    /** Copies one run of bytes that are there; 0 if the first of them has not come, or the file ends here. */
    private int copyNext(long address, int lengthBytes, long offset) {
        if (offset < FilePrefix.BYTES) {
            int inHead = (int) Math.min(lengthBytes, FilePrefix.BYTES - offset);
            int length = prefix.copy(address, inHead, offset);
            return length > 0 ? length : copyHole(address, inHead, offset, prefix.nextFrom(offset));
        }
        if (streamed && offset < handedTo && offset < size) {
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
        if (streamed && offset > handedTo) {
            bytes.skip(handedTo, offset);
        }
        handOver(offset + length);
        return length;
    }

    /** A gap is zeros, but only once the file has ended: until then it may be filled. */
    private int copyHole(long address, int lengthBytes, long offset, long gapEnd) {
        if (!ended || offset >= size) {
            return 0;
        }
        int length = (int) Math.min(lengthBytes, Math.min(gapEnd, size) - offset);
        UnsafeApi.setMemory(address, length, (byte) 0);
        handOver(offset + length);
        return length;
    }

    private void handOver(long to) {
        if (streamed && to > handedTo) {
            // Also what was skipped by a seek forward: a stream is not read twice.
            long from = handedTo;
            handedTo = to;
            forget(from, to);
        }
        noteCoverage();
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
                waitingOffset = NOBODY_WAITS;
            }
        }
    }

    private void signal() {
        changes++;
        notifyAll();
    }
}
