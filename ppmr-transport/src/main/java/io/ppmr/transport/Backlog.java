package io.ppmr.transport;

import io.ppmr.protocol.data.ProtocolException;
import java.time.Duration;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;

/**
 * Bounds the memory of messages that connections' agents passed to another thread and that it did not handle yet. A
 * peer decides how much it sends, so each message reserves memory here before it is queued and releases it afterwards.
 * For any thread.
 */
public final class Backlog {
    /** The minimum heap that each message counts for. */
    private static final int MESSAGE_BYTES = 1024;

    /** The heap per byte on the wire: a text in a list needs up to ten times its length. */
    private static final int HEAP_PER_BYTE = 8;

    private final int heapBytes;
    private final Duration patience;
    private final Semaphore remainingBytes;

    /**
     * @param heapBytes the limit for all messages; a single message is accepted at any size
     * @param patience how long an agent waits for memory; zero where the other thread expects few messages
     */
    public Backlog(int heapBytes, Duration patience) {
        this.heapBytes = heapBytes;
        this.patience = patience;
        this.remainingBytes = new Semaphore(heapBytes);
    }

    /** Returns the bytes that a message of this length on the wire reserves. */
    public int chargeOf(int lengthBytes) {
        return (int) Math.min(heapBytes, MESSAGE_BYTES + (long) HEAP_PER_BYTE * lengthBytes);
    }

    /**
     * Reserves memory for a message of this length on the wire, and returns the reserved bytes.
     *
     * @throws ProtocolException if there is none within the patience: the connection must be closed
     */
    public int reserve(int lengthBytes) throws ProtocolException {
        int charge = chargeOf(lengthBytes);
        try {
            if (remainingBytes.tryAcquire(charge, patience.toNanos(), TimeUnit.NANOSECONDS)) {
                return charge;
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        throw new ProtocolException("the peer sends messages faster than this node handles them: waiting messages need "
                + (heapBytes - remainingBytes.availablePermits()) + " of " + heapBytes + " bytes");
    }

    /** Releases reserved bytes. */
    public void release(int charge) {
        remainingBytes.release(charge);
    }
}
