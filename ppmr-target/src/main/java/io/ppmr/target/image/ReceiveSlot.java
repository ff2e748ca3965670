package io.ppmr.target.image;

import java.util.concurrent.atomic.AtomicBoolean;

/**
 * The target's memory for one window of one file: a chunk of the pool. A byte of the file has its own offset in the
 * window, so pieces of a window can be combined in one receive slot.
 *
 * <p>The {@link CreditLedger} grants it to a file, on the session's agent. Until the file frees it, its contents belong
 * to the file and are guarded by the file's lock.
 */
public final class ReceiveSlot {
    /** The class of memory from which a receive slot is granted, which decides its use. */
    public enum SlotKind {
        /** The half of the pool that is kept for waiting readers. */
        RESERVED,
        /** The rest of the pool. */
        GENERAL,
        /** Additional chunks through which bytes pass to another receive slot, or to staging. */
        BOUNCE
    }

    private final int index;
    private final int chunk;
    private final long address;

    // Written by the session's agent before the slot is granted.
    private SlotKind kind;
    private long window;
    private boolean staged;
    /** The space in staging that is reserved for its bytes; released once by {@link #takeReserved}. */
    private long reservedBytes;
    /** Its credit was neither used nor returned. The thread that sets this to false used the credit. */
    private final AtomicBoolean open = new AtomicBoolean();
    /**
     * Null while it is free: set by the session's agent, and reset while holding the file's lock. Read by any thread.
     */
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

    /** The number of the slot on the wire and in pulls. */
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

    /** The window for which it is granted. */
    public long window() {
        return window;
    }

    /** The file to which it is granted; null while it is free. */
    public ArrivingFile file() {
        return file;
    }

    // ---- the ledger, on the session's agent -------------------------------------------------------------------

    void grant(SlotKind grantedKind, ArrivingFile grantedFile, long grantedWindow) {
        grant(grantedKind, grantedFile, grantedWindow, false, 0);
    }

    /** Grants the slot for bytes that move to staging on arrival, for which space is reserved. */
    void grantStaged(SlotKind grantedKind, ArrivingFile grantedFile, long grantedWindow, long reserved) {
        grant(grantedKind, grantedFile, grantedWindow, true, reserved);
    }

    private void grant(
            SlotKind grantedKind, ArrivingFile grantedFile, long grantedWindow, boolean isStaged, long reserved) {
        kind = grantedKind;
        window = grantedWindow;
        liveBytes = 0;
        pieces = 0;
        arrived = false;
        staged = isStaged;
        reservedBytes = reserved;
        skippedFrom = Long.MAX_VALUE;
        destination = null;
        nextWaiting = null;
        firstWaiting = null;
        file = grantedFile;
        open.set(true);
    }

    /** Takes the slot back from its file, which never received it or ended. */
    void revoke() {
        open.set(false);
        file = null;
    }

    /** Returns whether it is granted to the file and its credit was neither used nor returned. */
    boolean isUnusedGrantOf(ArrivingFile expected) {
        return file == expected && open.get();
    }

    /**
     * Uses or returns the credit. Called by the session's agent, or by the transport's threads if the source sends
     * chunks.
     *
     * @return whether the credit was open until now
     */
    public boolean use() {
        return open.compareAndSet(true, false);
    }

    /** The chunk that used the credit does not arrive on its connection, but may arrive on another one. */
    public void reopen() {
        open.set(true);
    }

    // ---- the file, under its lock -----------------------------------------------------------------------------

    /** Returns whether its bytes move to staging. */
    boolean isStaged() {
        return staged;
    }

    /** Returns the reserved space in staging and sets it to 0, so that it is released once. */
    long takeReserved() {
        long reserved = reservedBytes;
        reservedBytes = 0;
        return reserved;
    }

    /** Marks its own bytes as arrived, or not expected. */
    void arrive() {
        arrived = true;
    }

    boolean hasArrived() {
        return arrived;
    }

    /** A reader skipped from this offset to a later window while bytes were under way to this one. */
    void skipFrom(long offset) {
        skippedFrom = offset;
    }

    /** Returns whether a reader skipped the bytes from this offset on that arrive in it, or through it. */
    boolean wasSkippedFrom(long offset) {
        return offset >= (destination == null ? this : destination).skippedFrom;
    }

    /**
     * Changes the number of bytes in it that belong to the file now: neither overwritten, truncated, nor read.
     *
     * @return the number after the change
     */
    int changeLiveBytes(long change) {
        liveBytes += (int) change;
        return liveBytes;
    }

    /** Sets the slot to which its bytes go, which is not freed before they arrived or {@link #detach} was called. */
    void attachTo(ReceiveSlot holder) {
        holder.pieces++;
        destination = holder;
    }

    /** Returns the destination of a bounce buffer's bytes; null for other slots. */
    ReceiveSlot destination() {
        return destination;
    }

    /** Removes and returns its destination, because its bytes are there, or will not arrive. */
    ReceiveSlot detach() {
        ReceiveSlot old = destination;
        old.pieces--;
        destination = null;
        return old;
    }

    /** Queues a bounce buffer until its destination's own bytes arrived. */
    void awaitDestination() {
        nextWaiting = destination.firstWaiting;
        destination.firstWaiting = this;
    }

    /** Removes and returns the next queued bounce buffer; null if there is none. */
    ReceiveSlot pollWaiting() {
        ReceiveSlot waiting = firstWaiting;
        if (waiting != null) {
            firstWaiting = waiting.nextWaiting;
            waiting.nextWaiting = null;
        }
        return waiting;
    }

    /** Returns whether it is granted to the file, contains none of its bytes, and expects none. */
    boolean isEmptyIn(ArrivingFile expected) {
        return file == expected && arrived && liveBytes == 0 && pieces == 0 && destination == null;
    }

    /** Returns whether bytes may arrive in it. */
    boolean expectsBytes() {
        return !arrived || pieces > 0;
    }

    /** Returns whether it contains bytes of the file, and expects none. */
    boolean isSettledIn(ArrivingFile expected) {
        return file == expected && arrived && liveBytes > 0 && pieces == 0;
    }

    /** Marks the slot as abandoned: no transport writes to it. */
    void abandon() {
        pieces = 0;
        arrived = true;
    }

    @Override
    public String toString() {
        return "slot " + index + " (" + kind + ", window " + window + ")";
    }
}
