package io.ppmr.target.image;

import io.ppmr.bufferpool.PoolGeometry;
import java.util.ArrayList;
import java.util.List;
import org.agrona.UnsafeApi;
import org.agrona.collections.Long2ObjectHashMap;

/**
 * The location of each byte of one image file: a receive slot, or staging. Reports empty receive slots.
 *
 * <p>For a stream the bytes of a chunk stay in the chunk until they are read: the chunk <i>holds</i> its window. A
 * further piece of a held window arrives in a bounce buffer and is copied to the holder. All other bytes move to the
 * {@link StagedFile} when they arrived. So the heap is bounded by the pool, for any size of the file. Guarded by the
 * file's lock.
 */
final class FileBytes {
    /** Receives the events of receive slots and staging, while holding the file's lock. */
    interface Events {
        /** A chunk is empty. */
        void slotFree(ReceiveSlot slot);

        /** Staging has more space. */
        void stagingFree();

        /** Arrived bytes cannot be staged. */
        void stagingFailed(ImageException reason);
    }

    private final ArrivingFile file;
    private final PoolGeometry geometry;
    private final Staging staging;
    private final Events events;
    private final Extents extents = new Extents(this::freeIfEmpty);
    private final Long2ObjectHashMap<ReceiveSlot> holders = new Long2ObjectHashMap<>();
    private final StagedFile staged;
    /** The bounce buffers of a stream whose bytes must be staged, and did not arrive. */
    private final List<ReceiveSlot> toStage = new ArrayList<>();

    private ReceiveSlot foundSlot;
    private long foundBytes;

    FileBytes(ArrivingFile file, PoolGeometry geometry, Staging staging, Events events) {
        this.file = file;
        this.geometry = geometry;
        this.staging = staging;
        this.events = events;
        staged = new StagedFile(staging);
    }

    /** Returns whether a chunk contains a window, or is granted for it. */
    boolean isHeld(long window) {
        return holders.containsKey(window);
    }

    /**
     * Returns whether all bytes from {@code offset} to its window's end are present, or the window has a receive slot.
     */
    boolean isCovered(long offset) {
        long window = geometry.windowOf(offset);
        long end = startOf(window + 1);
        return isHeld(window) || isToBeStaged(window) || staged.coveredTo(offset, end) >= end;
    }

    /** Returns whether bytes of a window may be under way: a credit for it is unused, or its chunk did not arrive. */
    boolean isExpected(long window) {
        ReceiveSlot holder = holders.get(window);
        return (holder != null && holder.expectsBytes()) || isToBeStaged(window);
    }

    private boolean isToBeStaged(long window) {
        // By index, because an iterator would be allocated for each chunk.
        for (int i = 0; i < toStage.size(); i++) {
            if (toStage.get(i).window() == window) {
                return true;
            }
        }
        return false;
    }

    /** Returns how much space staging needs for the missing bytes of a window. */
    long missingBytes(long window) {
        return staged.missingBytes(startOf(window), startOf(window + 1));
    }

    private long startOf(long window) {
        return window * geometry.chunkBytes();
    }

    // ---- bytes -----------------------------------------------------------------------------------------------

    /** Adds bytes that were advertised for a receive slot. */
    void put(long start, long end, ReceiveSlot slot) {
        extents.put(start, end, slot);
    }

    /** Removes these bytes from the file. */
    void remove(long start, long end) throws ImageException {
        extents.remove(start, end);
        if (staged.remove(start, end)) {
            events.stagingFree();
        }
    }

    /** Returns the start of the first bytes after {@code offset}, or {@link Long#MAX_VALUE}. */
    long nextStart(long offset) {
        return Math.min(extents.nextStart(offset), staged.nextFrom(offset));
    }

    /**
     * Returns the end of the expected bytes from {@code offset} on, or of the first part of them, or a position after
     * {@code limit}.
     */
    long coveredTo(long offset, long limit) {
        return find(offset, limit - offset) ? offset + foundBytes : offset;
    }

    /** Finds a byte and up to the given number after it. If it is expected, the methods below describe it. */
    boolean find(long offset, long lengthBytes) {
        int extent = extents.find(offset);
        if (extent >= 0) {
            foundSlot = extents.slot(extent);
            foundBytes = extents.end(extent) - offset;
            return true;
        }
        // Bytes in a receive slot replace staged ones.
        foundSlot = null;
        foundBytes = Math.min(staged.coveredTo(offset, offset + lengthBytes), extents.nextStart(offset)) - offset;
        return foundBytes > 0;
    }

    /** Returns true if the found byte arrived. */
    boolean foundArrived() {
        return foundSlot == null || foundSlot.hasArrived();
    }

    /** Returns the length of the found run, within the requested number. */
    long foundBytes() {
        return foundBytes;
    }

    /** Copies the found bytes at {@code offset} to native memory. */
    void copyFound(long address, int lengthBytes, long offset) throws ImageException {
        if (foundSlot == null) {
            staged.read(address, lengthBytes, offset);
        } else {
            UnsafeApi.copyMemory(foundSlot.address() + geometry.offsetInWindow(offset), address, lengthBytes);
        }
    }

    /**
     * A reader seeks forward. Bytes under way to the windows that it leaves are skipped. Chunks overtake each other, so
     * these bytes may have been written before the bytes that are read next.
     */
    void skip(long from, long to) {
        holders.values().forEach(holder -> skip(holder, from, to));
        toStage.forEach(slot -> skip(slot, from, to));
    }

    private void skip(ReceiveSlot slot, long from, long to) {
        if (slot.window() >= geometry.windowOf(from) && slot.window() < geometry.windowOf(to) && slot.expectsBytes()) {
            slot.skipFrom(from);
        }
    }

    // ---- receive slots ---------------------------------------------------------------------------------------

    /** Assigns a chunk that is granted for a window of a stream. Its bytes stay in it, or must be staged. */
    void hold(ReceiveSlot slot) {
        if (slot.isStaged()) {
            toStage.add(slot);
        } else {
            holders.put(slot.window(), slot);
        }
    }

    boolean addPiece(ReceiveSlot bounce) {
        ReceiveSlot holder = holders.get(bounce.window());
        if (holder != null) {
            bounce.attachTo(holder);
        }
        return holder != null;
    }

    void returnCredit(ReceiveSlot slot) {
        if (slot.isStaged()) {
            leaveStaging(slot);
        }
        slot.arrive();
        if (slot.destination() != null) {
            freeIfEmpty(slot.detach());
        }
        freeIfEmpty(slot);
    }

    void onArrived(ReceiveSlot slot) {
        if (slot.isStaged()) {
            // The slot is not free before it is marked as arrived.
            stage(slot);
            leaveStaging(slot);
        }
        slot.arrive();
        if (slot.destination() != null) {
            join(slot);
            return;
        }
        for (ReceiveSlot bounce = slot.pollWaiting(); bounce != null; bounce = slot.pollWaiting()) {
            join(bounce);
        }
        freeIfEmpty(slot);
    }

    boolean canEvict(ReceiveSlot slot) {
        return slot.isSettledIn(file) && holders.get(slot.window()) == slot;
    }

    /** Moves the bytes of a chunk to staging, which has space for them, and frees it. */
    void evict(ReceiveSlot slot) {
        stage(slot);
    }

    /** Frees everything; for the end of a session, when no transport writes to a receive slot. */
    void discard() {
        extents.remove(0, Long.MAX_VALUE);
        staged.close();
        for (ReceiveSlot slot : holders.values().toArray(new ReceiveSlot[0])) {
            slot.abandon();
            freeIfEmpty(slot);
        }
    }

    private void join(ReceiveSlot bounce) {
        ReceiveSlot destination = bounce.destination();
        if (destination.hasArrived()) {
            copyLive(bounce, destination);
            bounce.detach();
            freeIfEmpty(bounce);
            freeIfEmpty(destination);
        } else {
            // The transport still writes to the destination. Its completion also adds this piece.
            bounce.awaitDestination();
        }
    }

    private void copyLive(ReceiveSlot from, ReceiveSlot to) {
        long windowStart = startOf(from.window());
        long windowEnd = startOf(from.window() + 1);
        int extent = extents.next(from, windowStart, windowEnd);
        while (extent >= 0) {
            long end = extents.end(extent);
            int inWindow = geometry.offsetInWindow(extents.start(extent));
            UnsafeApi.copyMemory(from.address() + inWindow, to.address() + inWindow, end - extents.start(extent));
            extent = extents.next(from, end, windowEnd);
        }
        extents.move(from, to, windowStart, windowEnd);
    }

    /** Copies the live bytes of a receive slot to staging, and removes them from the slot. */
    private void stage(ReceiveSlot slot) {
        long windowStart = startOf(slot.window());
        long windowEnd = startOf(slot.window() + 1);
        int extent = extents.next(slot, windowStart, windowEnd);
        while (extent >= 0) {
            long start = extents.start(extent);
            long end = extents.end(extent);
            try {
                staged.write(slot.address() + geometry.offsetInWindow(start), (int) (end - start), start);
            } catch (ImageException e) {
                events.stagingFailed(e);
            }
            // After the removal of its last byte an arrived slot is free, and may be granted again at once.
            extents.remove(start, end);
            extent = extents.next(slot, end, windowEnd);
        }
    }

    private void leaveStaging(ReceiveSlot slot) {
        toStage.remove(slot);
        staging.release(slot.takeReserved());
    }

    private void freeIfEmpty(ReceiveSlot slot) {
        if (!slot.isEmptyIn(file)) {
            return;
        }
        if (holders.get(slot.window()) == slot) {
            holders.remove(slot.window());
        }
        slot.revoke();
        events.slotFree(slot);
    }
}
