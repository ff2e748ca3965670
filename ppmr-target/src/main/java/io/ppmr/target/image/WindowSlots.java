package io.ppmr.target.image;

import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.target.slots.Slot;
import java.util.function.Consumer;
import org.agrona.UnsafeApi;
import org.agrona.collections.Long2ObjectHashMap;

/**
 * The slots of one file: which holds which window, which bytes of them belong to the file, and when one is empty.
 *
 * <p>A window has one holder. A piece of a window that already has one comes through a lane slot and is joined to the
 * holder. Guarded by the file's lock.
 */
final class WindowSlots {
    private final ArrivingFile file;
    private final PoolGeometry geometry;
    private final Consumer<Slot> whenFree;
    private final Extents extents = new Extents(this::freeIfEmpty);
    private final Long2ObjectHashMap<Slot> holders = new Long2ObjectHashMap<>();

    WindowSlots(ArrivingFile file, PoolGeometry geometry, Consumer<Slot> whenFree) {
        this.file = file;
        this.geometry = geometry;
        this.whenFree = whenFree;
    }

    Extents extents() {
        return extents;
    }

    Slot holder(long window) {
        return holders.get(window);
    }

    void hold(Slot slot) {
        holders.put(slot.window, slot);
    }

    boolean addPiece(Slot lane) {
        Slot holder = holders.get(lane.window);
        if (holder != null) {
            holder.pieces++;
            lane.destination = holder;
        }
        return holder != null;
    }

    void giveUp(Slot slot) {
        slot.arrived = true;
        if (slot.destination != null) {
            Slot destination = slot.destination;
            slot.destination = null;
            destination.pieces--;
            freeIfEmpty(destination);
        }
        freeIfEmpty(slot);
    }

    void arrived(Slot slot) {
        slot.arrived = true;
        if (slot.destination != null) {
            join(slot);
        } else {
            joinWaiting(slot);
            freeIfEmpty(slot);
        }
    }

    boolean canEvict(Slot slot) {
        return slot.file == file
                && slot.arrived
                && slot.liveBytes > 0
                && slot.pieces == 0
                && holders.get(slot.window) == slot;
    }

    void evict(Slot slot, Slot staged) {
        staged.arrived = true;
        holders.put(staged.window, staged);
        copyLive(slot, staged);
        freeIfEmpty(slot);
    }

    /** Frees everything; for the end of a session, when no transport writes into a slot any more. */
    void discard() {
        extents.remove(0, Long.MAX_VALUE);
        for (Slot slot : holders.values().toArray(new Slot[0])) {
            slot.pieces = 0;
            slot.arrived = true;
            freeIfEmpty(slot);
        }
    }

    private void join(Slot lane) {
        Slot destination = lane.destination;
        if (destination.arrived) {
            copyLive(lane, destination);
            lane.destination = null;
            destination.pieces--;
            freeIfEmpty(lane);
            freeIfEmpty(destination);
        } else {
            // The transport still writes into the destination; whoever ends that pull puts this piece in as well.
            lane.nextWaiting = destination.firstWaiting;
            destination.firstWaiting = lane;
        }
    }

    private void joinWaiting(Slot destination) {
        Slot lane = destination.firstWaiting;
        destination.firstWaiting = null;
        while (lane != null) {
            Slot next = lane.nextWaiting;
            lane.nextWaiting = null;
            join(lane);
            lane = next;
        }
    }

    private void copyLive(Slot from, Slot to) {
        long windowStart = from.window * geometry.chunkBytes();
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

    private void freeIfEmpty(Slot slot) {
        if (slot.file == file && slot.arrived && slot.liveBytes == 0 && slot.pieces == 0 && slot.destination == null) {
            if (holders.get(slot.window) == slot) {
                holders.remove(slot.window);
            }
            slot.file = null;
            whenFree.accept(slot);
        }
    }
}
