package io.ppmr.transport;

import io.ppmr.protocol.data.ProtocolException;
import java.time.Duration;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;

/**
 * Bounds the messages that agents of connections have handed to a thread that has not dealt with them yet. How much a
 * peer sends is the peer's decision, so each message takes room here before it is queued and gives it back afterwards.
 * For any thread.
 */
public final class Backlog {
    /** The heap that each message counts for, however short it is. */
    private static final int MESSAGE_BYTES = 1024;

    /** The heap that a byte on the wire counts for: a text in a list recovers to ten times its bytes. */
    private static final int HEAP_PER_BYTE = 8;

    private final int heapBytes;
    private final Duration patience;
    private final Semaphore leftBytes;

    /**
     * @param heapBytes of all messages together; a single one is let in whatever its size
     * @param patience how long an agent waits for room; zero where the other thread expects few messages
     */
    public Backlog(int heapBytes, Duration patience) {
        this.heapBytes = heapBytes;
        this.patience = patience;
        this.leftBytes = new Semaphore(heapBytes);
    }

    /** Returns the room that a message of this length on the wire takes. */
    public int chargeOf(int lengthBytes) {
        return (int) Math.min(heapBytes, MESSAGE_BYTES + (long) HEAP_PER_BYTE * lengthBytes);
    }

    /**
     * Takes room for a message of this length on the wire, and returns it.
     *
     * @throws ProtocolException if there is none within the patience: the connection must be closed
     */
    public int take(int lengthBytes) throws ProtocolException {
        int charge = chargeOf(lengthBytes);
        try {
            if (leftBytes.tryAcquire(charge, patience.toNanos(), TimeUnit.NANOSECONDS)) {
                return charge;
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        throw new ProtocolException("the peer sends more messages than are dealt with here: those that wait take "
                + (heapBytes - leftBytes.availablePermits()) + " of " + heapBytes + " bytes");
    }

    /** Gives the room of messages back. */
    public void give(int charge) {
        leftBytes.release(charge);
    }
}
