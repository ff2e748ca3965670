package io.ppmr.source.image;

import java.util.concurrent.atomic.AtomicInteger;

/**
 * The target's replies to one file's credit requests that its writers did not process yet. The session's agent adds
 * them and the holder of the file's lock removes them, without blocking each other.
 */
final class CreditInbox {
    /** More than the pending requests of a file; a power of two. */
    private static final int CAPACITY = 64;

    private final long[] windows = new long[CAPACITY];
    private final int[] values = new int[CAPACITY];
    private final AtomicInteger head = new AtomicInteger();
    private final AtomicInteger tail = new AtomicInteger();

    boolean offer(long window, int value) {
        int at = tail.get();
        if (at - head.get() == CAPACITY) {
            return false;
        }
        windows[at & (CAPACITY - 1)] = window;
        values[at & (CAPACITY - 1)] = value;
        tail.set(at + 1);
        return true;
    }

    boolean isEmpty() {
        return head.get() == tail.get();
    }

    long window() {
        return windows[head.get() & (CAPACITY - 1)];
    }

    int value() {
        return values[head.get() & (CAPACITY - 1)];
    }

    void remove() {
        head.set(head.get() + 1);
    }
}
