package io.ppmr.target.image;

import io.ppmr.bufferpool.PoolGeometry;
import java.util.function.Consumer;
import org.agrona.UnsafeApi;
import org.agrona.collections.Long2ObjectHashMap;

/**
 * The receive slots of one file: which holds which window, which bytes of them belong to the file, and when one is
 * empty.
 *
 * <p>A window has one holder. A piece of a window that already has one comes through a bounce buffer and is joined to
 * the holder. Guarded by the file's lock.
 */
final class WindowSlots {
    private final ArrivingFile file;
    private final PoolGeometry geometry;
    private final Consumer<ReceiveSlot> whenFree;
    private final Extents extents = new Extents(this::freeIfEmpty);
    private final Long2ObjectHashMap<ReceiveSlot> holders = new Long2ObjectHashMap<>();

    WindowSlots(ArrivingFile file, PoolGeometry geometry, Consumer<ReceiveSlot> whenFree) {
        this.file = file;
        this.geometry = geometry;
        this.whenFree = whenFree;
    }

    Extents extents() {
        return extents;
    }

    ReceiveSlot holder(long window) {
        return holders.get(window);
    }

    void hold(ReceiveSlot slot) {
        holders.put(slot.window(), slot);
    }

    boolean addPiece(ReceiveSlot bounce) {
        ReceiveSlot holder = holders.get(bounce.window());
        if (holder != null) {
            bounce.attachTo(holder);
        }
        return holder != null;
    }

    void giveUp(ReceiveSlot slot) {
        slot.arrive();
        if (slot.destination() != null) {
            freeIfEmpty(slot.detach());
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
    }

    /** Frees everything; for the end of a session, when no transport writes into a receive slot any more. */
    void discard() {
        extents.remove(0, Long.MAX_VALUE);
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

    private void freeIfEmpty(ReceiveSlot slot) {
        if (slot.isEmptyIn(file)) {
            if (holders.get(slot.window()) == slot) {
                holders.remove(slot.window());
            }
            slot.revoke();
            whenFree.accept(slot);
        }
    }
}
