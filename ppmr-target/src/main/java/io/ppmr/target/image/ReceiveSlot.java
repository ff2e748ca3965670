package io.ppmr.target.image;

/**
 * Room for one window of one file at the target: a chunk of the pool, or a chunk-sized piece of staging. A byte of the
 * file lies at its own offset in the window, so pieces of a window can be put together in one slot.
 *
 * <p>A slot is granted by the {@link CreditLedger}, then filled by the transport, then read, then free again. From
 * grant
 * to release the fields belong to the file and are guarded by its lock; the identity never changes.
 */
public final class ReceiveSlot {
    /** What a slot is granted from, which decides what may happen to it. */
    public enum Kind {
        /** The half of the pool kept for what a reader waits for. */
        RESERVED,
        /** The rest of the pool. */
        GENERAL,
        /** Chunks beside the pool through which bytes pass on their way into another slot. */
        BOUNCE,
        /** A piece of staging. */
        STAGING
    }

    private final int index;
    private final int chunk;
    private final long address;
    private Kind kind;

    /** The file and window that it is granted for; null while free. */
    public ArrivingFile file;

    public long window;

    /** Bytes in it that belong to the file as it is now; neither overwritten, cut off, nor read away. */
    public int liveBytes;

    /** Pieces on their way into this slot through a bounce buffer; it is not freed while there are any. */
    public int pieces;

    /** Whether its own pull has ended, or it never needs one. */
    public boolean arrived;

    /** For a bounce buffer: where its bytes go. */
    public ReceiveSlot destination;

    /** For a bounce buffer whose destination has not arrived itself: the next one that waits with it. */
    public ReceiveSlot nextWaiting;

    /** For a slot that has not arrived: the first bounce buffer that waits for it. */
    public ReceiveSlot firstWaiting;

    // What is on its way into it, from the advertisement.
    public long offset;
    public int lengthBytes;
    public int crc32c;
    public int sourceChunk;
    public long order;

    ReceiveSlot(int index, int chunk, long address) {
        this.index = index;
        this.chunk = chunk;
        this.address = address;
    }

    /** Names the slot on the wire and in pulls. */
    public int index() {
        return index;
    }

    /** The chunk of the pool, or -1 for a piece of staging. */
    public int chunk() {
        return chunk;
    }

    /** Native address of the window's first byte. */
    public long address() {
        return address;
    }

    public Kind kind() {
        return kind;
    }

    void grant(Kind grantedKind, ArrivingFile grantedFile, long grantedWindow) {
        kind = grantedKind;
        file = grantedFile;
        window = grantedWindow;
        liveBytes = 0;
        pieces = 0;
        arrived = false;
        destination = null;
        nextWaiting = null;
        firstWaiting = null;
        lengthBytes = 0;
    }

    @Override
    public String toString() {
        return "slot " + index + " (" + kind + ", window " + window + ")";
    }
}
