package io.ppmr.target.image;

import io.ppmr.bufferpool.PoolGeometry;
import org.agrona.UnsafeApi;
import org.agrona.collections.Long2ObjectHashMap;

/**
 * The receive slots of one file: which holds which window, which bytes of them belong to the file, and when one is
 * empty.
 *
 * <p>A window has one holder. A piece of a window that already has one comes through a bounce buffer and is joined to
 * the holder. A window of staging rests as soon as nothing is on its way into it: its receive slot goes back, and the
 * index off the heap knows of it, until the next piece of it is granted. So what is on the heap is bounded by the pool,
 * however large the file is. Guarded by the file's lock.
 */
final class WindowSlots {
    /** Hears of receive slots, under the file's lock. */
    interface Events {
        /** A chunk is empty. */
        void slotFree(ReceiveSlot slot);

        /** A place in staging is free again. */
        void stagingFree();

        /** The index has no room for a window. */
        void indexFull();
    }

    private final ArrivingFile file;
    private final PoolGeometry geometry;
    private final StagingArea staging;
    private final Events events;
    private final Extents extents = new Extents(this::freeIfEmpty);
    private final Long2ObjectHashMap<ReceiveSlot> holders = new Long2ObjectHashMap<>();
    private final WindowIndex index;

    private boolean foundArrived;
    private long foundAddress;
    private long foundBytes;

    WindowSlots(ArrivingFile file, PoolGeometry geometry, StagingArea staging, Events events) {
        this.file = file;
        this.geometry = geometry;
        this.staging = staging;
        this.events = events;
        index = new WindowIndex(staging.index(), geometry, this::placeFree);
    }

    /** Tells whether a window has a receive slot or rests in staging. */
    boolean isHeld(long window) {
        return holders.containsKey(window) || index.has(window);
    }

    /** Tells whether bytes of a window may be on their way: a credit for it is out, or its chunk has not come. */
    boolean isExpected(long window) {
        ReceiveSlot holder = holders.get(window);
        return holder != null && holder.expectsBytes();
    }

    // ---- its bytes --------------------------------------------------------------------------------------------

    /** Bytes were advertised for a receive slot. */
    void put(long start, long end, ReceiveSlot slot) {
        extents.put(start, end, slot);
    }

    /**
     * These bytes are nobody's any more.
     *
     * @return false if there is no memory to note a hole in a window that rests: not all of them are gone then
     */
    boolean remove(long start, long end) {
        extents.remove(start, end);
        return index.remove(start, end);
    }

    /** Gives the start of the first bytes behind {@code offset}, or {@link Long#MAX_VALUE}. */
    long nextStart(long offset) {
        return Math.min(extents.nextStart(offset), index.nextStart(offset));
    }

    /** Gives the end of the bytes that were advertised from {@code offset} on, or an earlier such place behind it. */
    long coveredTo(long offset) {
        return find(offset) ? offset + foundBytes : offset;
    }

    /** Looks for a byte; if it was advertised, the methods below tell of it. */
    boolean find(long offset) {
        int extent = extents.find(offset);
        if (extent >= 0) {
            ReceiveSlot slot = extents.slot(extent);
            foundArrived = slot.hasArrived();
            foundAddress = slot.address() + geometry.offsetInWindow(offset);
            foundBytes = extents.end(extent) - offset;
            return true;
        }
        if (index.find(offset)) {
            foundArrived = true;
            foundAddress = staging.address(index.foundPlace()) + geometry.offsetInWindow(offset);
            foundBytes = index.foundBytes(offset);
            return true;
        }
        return false;
    }

    /** Returns true if the byte that was found has come. */
    boolean foundArrived() {
        return foundArrived;
    }

    /** Its native address. */
    long foundAddress() {
        return foundAddress;
    }

    /** Returns how many bytes follow it in one piece, itself included. */
    long foundBytes() {
        return foundBytes;
    }

    /**
     * A reader seeks from one byte to another. What is on its way into the windows that it leaves with that is skipped:
     * chunks overtake each other, so it may have been written before what is read next.
     */
    void skip(long from, long to) {
        for (ReceiveSlot holder : holders.values()) {
            if (holder.window() >= geometry.windowOf(from)
                    && holder.window() < geometry.windowOf(to)
                    && holder.expectsBytes()) {
                holder.skipFrom(from);
            }
        }
    }

    // ---- its receive slots ------------------------------------------------------------------------------------

    void hold(ReceiveSlot slot) {
        holders.put(slot.window(), slot);
    }

    boolean addPiece(ReceiveSlot bounce) {
        ReceiveSlot holder = holders.get(bounce.window());
        if (holder == null && index.has(bounce.window())) {
            holder = wake(bounce.window());
        }
        if (holder != null) {
            bounce.attachTo(holder);
        }
        return holder != null;
    }

    void giveUp(ReceiveSlot slot) {
        slot.arrive();
        if (slot.destination() != null) {
            leave(slot.detach());
        }
        freeIfEmpty(slot);
    }

    void arrived(ReceiveSlot slot) {
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

    void evict(ReceiveSlot slot, ReceiveSlot staged) {
        holders.put(staged.window(), staged);
        copyLive(slot, staged);
        freeIfEmpty(slot);
        leave(staged);
    }

    /** Frees everything; for the end of a session, when no transport writes into a receive slot any more. */
    void discard() {
        remove(0, Long.MAX_VALUE);
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
            leave(destination);
        } else {
            // The transport still writes into the destination; whoever ends that pull puts this piece in as well.
            bounce.awaitDestination();
        }
    }

    private void copyLive(ReceiveSlot from, ReceiveSlot to) {
        long windowStart = from.window() * geometry.chunkBytes();
        long windowEnd = windowStart + geometry.chunkBytes();
        long position = windowStart;
        while (position < windowEnd) {
            int extent = extents.find(position);
            if (extent < 0) {
                position = Math.min(extents.nextStart(position), windowEnd);
                continue;
            }
            long end = Math.min(extents.end(extent), windowEnd);
            if (extents.slot(extent) == from) {
                long inWindow = position - windowStart;
                UnsafeApi.copyMemory(from.address() + inWindow, to.address() + inWindow, end - position);
            }
            position = end;
        }
        extents.move(from, to, windowStart, windowEnd);
    }

    /** Makes a receive slot of a window that rests. */
    private ReceiveSlot wake(long window) {
        ReceiveSlot slot = staging.wake(index.place(window));
        slot.grant(ReceiveSlot.Kind.STAGING, file, window);
        index.take(window, slot, extents);
        holders.put(window, slot);
        return slot;
    }

    /** Nothing that was on its way into it is any more: if it is not empty, and of staging, it rests. */
    private void leave(ReceiveSlot slot) {
        freeIfEmpty(slot);
        if (slot.kind() != ReceiveSlot.Kind.STAGING || !canEvict(slot)) {
            return;
        }
        if (!index.put(slot.window(), slot.place(), extents)) {
            events.indexFull();
            return;
        }
        long windowStart = slot.window() * geometry.chunkBytes();
        extents.forget(windowStart, windowStart + geometry.chunkBytes());
        holders.remove(slot.window());
        slot.revoke();
        staging.putToRest(slot);
    }

    private void placeFree(int place) {
        staging.release(place);
        events.stagingFree();
    }

    private void freeIfEmpty(ReceiveSlot slot) {
        if (!slot.isEmptyIn(file)) {
            return;
        }
        if (holders.get(slot.window()) == slot) {
            holders.remove(slot.window());
        }
        slot.revoke();
        if (slot.kind() == ReceiveSlot.Kind.STAGING) {
            staging.release(slot);
            events.stagingFree();
        } else {
            events.slotFree(slot);
        }
    }
}
