package io.ppmr.target.image;

import java.util.concurrent.atomic.AtomicBoolean;

/**
 * Room for one window of one file at the target: a chunk of the pool. A byte of the file lies at its own offset in the
 * window, so pieces of a window can be put together in one receive slot.
 *
 * <p>The {@link CreditLedger} grants it, on the session's agent, to a file; until the file has given it up its
 * contents are the file's, and guarded by the file's lock.
 */
public final class ReceiveSlot {
    /** The memory from which a receive slot is granted, which decides what may happen to it. */
    public enum SlotKind {
        /** The half of the pool kept for what a reader waits for. */
        RESERVED,
        /** The rest of the pool. */
        GENERAL,
        /** Chunks beside the pool through which bytes pass on their way into another receive slot, or to staging. */
        BOUNCE
    }

    private final int index;
    private final int chunk;
    private final long address;

    // Written by the session's agent, before the file has it.
    private SlotKind kind;
    private long window;
    private boolean staged;
    /** The room in staging that is set aside for its bytes; who takes it gives it back. */
    private long reservedBytes;
    /** Its credit is neither used nor given back; who makes that false has used it. */
    private final AtomicBoolean open = new AtomicBoolean();
    /** Null while it is free: set by the session's agent, and null again under the file's lock. Read by any thread. */
    private volatile ArrivingFile file;

    // Guarded by the file's lock.
    private int liveBytes;
    private int pieces;
    private boolean arrived;
    private long skippedFrom;
    private ReceiveSlot destination;
    private ReceiveSlot nextWaiting;
    private ReceiveSlot firstWaiting;

    ReceiveSlot(int index, int chunk, long address) {
        this.index = index;
        this.chunk = chunk;
        this.address = address;
    }

    /** Names it on the wire and in pulls. */
    public int index() {
        return index;
    }

    /** The chunk of the pool. */
    public int chunk() {
        return chunk;
    }

    /** Native address of the window's first byte. */
    public long address() {
        return address;
    }

    public SlotKind kind() {
        return kind;
    }

    /** The window that it is granted for. */
    public long window() {
        return window;
    }

    /** The file that it is granted to; null while it is free. */
    public ArrivingFile file() {
        return file;
    }

    // ---- the ledger, on the session's agent -------------------------------------------------------------------

    void grant(SlotKind grantedKind, ArrivingFile grantedFile, long grantedWindow) {
        grant(grantedKind, grantedFile, grantedWindow, false, 0);
    }

    /** Grants the slot for bytes that move to staging on arrival; room for them is reserved there. */
    void grantStaged(SlotKind grantedKind, ArrivingFile grantedFile, long grantedWindow, long reserved) {
        grant(grantedKind, grantedFile, grantedWindow, true, reserved);
    }

    private void grant(
            SlotKind grantedKind, ArrivingFile grantedFile, long grantedWindow, boolean leaves, long reserved) {
        kind = grantedKind;
        window = grantedWindow;
        liveBytes = 0;
        pieces = 0;
        arrived = false;
        staged = leaves;
        reservedBytes = reserved;
        skippedFrom = Long.MAX_VALUE;
        destination = null;
        nextWaiting = null;
        firstWaiting = null;
        file = grantedFile;
        open.set(true);
    }

    /** Takes the slot back from its file, which never received it or has ended. */
    void revoke() {
        open.set(false);
        file = null;
    }

    /** Returns whether it is granted to the file and its credit is neither used nor given back. */
    boolean isUnusedGrantOf(ArrivingFile asked) {
        return file == asked && open.get();
    }

    /**
     * Uses the credit, or gives it back. The session's agent, or where chunks are sent unasked the transport's threads.
     *
     * @return whether it was neither until now
     */
    public boolean use() {
        return open.compareAndSet(true, false);
    }

    /** The chunk that used the credit does not come by its connection; it may come by another one. */
    public void reopen() {
        open.set(true);
    }

    // ---- the file, under its lock -----------------------------------------------------------------------------

    /** Returns whether its bytes leave it for staging. */
    boolean isStaged() {
        return staged;
    }

    /** Takes the room in staging that was set aside for it. */
    long takeReserved() {
        long taken = reservedBytes;
        reservedBytes = 0;
        return taken;
    }

    /** Its own pull has ended, or there will be none. */
    void arrive() {
        arrived = true;
    }

    boolean hasArrived() {
        return arrived;
    }

    /** A reader has left its window at this offset for a later one, while bytes were on their way into it. */
    void skipFrom(long offset) {
        skippedFrom = offset;
    }

    /** Returns whether a reader has skipped what comes into it, or through it, from this offset on. */
    boolean wasSkippedFrom(long offset) {
        return offset >= (destination == null ? this : destination).skippedFrom;
    }

    /**
     * Counts bytes in it that belong to the file as it is now: neither overwritten, cut off, nor read away.
     *
     * @return how many there are after the change
     */
    int changeLiveBytes(long change) {
        liveBytes += (int) change;
        return liveBytes;
    }

    /** From now on its bytes go to this one, which is not freed before they have come or {@link #detach} was called. */
    void attachTo(ReceiveSlot holder) {
        holder.pieces++;
        destination = holder;
    }

    /** For a bounce buffer: where its bytes go; null for others. */
    ReceiveSlot destination() {
        return destination;
    }

    /** Its bytes are in its destination, or will not come; gives that. */
    ReceiveSlot detach() {
        ReceiveSlot left = destination;
        left.pieces--;
        destination = null;
        return left;
    }

    /** A bounce buffer waits until its destination has arrived itself. */
    void awaitDestination() {
        nextWaiting = destination.firstWaiting;
        destination.firstWaiting = this;
    }

    /** Takes the next bounce buffer that waits for this one; null if none does. */
    ReceiveSlot pollWaiting() {
        ReceiveSlot waiting = firstWaiting;
        if (waiting != null) {
            firstWaiting = waiting.nextWaiting;
            waiting.nextWaiting = null;
        }
        return waiting;
    }

    /** Returns whether the file has it and nothing of it, and nothing will come. */
    boolean isEmptyIn(ArrivingFile asked) {
        return file == asked && arrived && liveBytes == 0 && pieces == 0 && destination == null;
    }

    /** Returns whether bytes may come into it. */
    boolean expectsBytes() {
        return !arrived || pieces > 0;
    }

    /** Returns whether the file has bytes in it, and nothing more will come. */
    boolean isSettledIn(ArrivingFile asked) {
        return file == asked && arrived && liveBytes > 0 && pieces == 0;
    }

    /** Marks the slot as abandoned: no transport writes into it. */
    void abandon() {
        pieces = 0;
        arrived = true;
    }

    @Override
    public String toString() {
        return "slot " + index + " (" + kind + ", window " + window + ")";
    }
}
