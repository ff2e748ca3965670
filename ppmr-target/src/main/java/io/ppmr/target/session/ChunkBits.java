package io.ppmr.target.session;

import java.util.concurrent.atomic.AtomicLongArray;

/**
 * A set of chunk numbers to which many threads add and which one agent empties, without a lock and without garbage. The
 * agent moves the present numbers to its own part with {@link #drain} and removes them one by one with {@link #poll}.
 * Numbers that it does not poll stay.
 */
final class ChunkBits {
    private final AtomicLongArray words;
    private final long[] drained;
    private int firstWord;

    ChunkBits(int chunks) {
        words = new AtomicLongArray((chunks + Long.SIZE - 1) / Long.SIZE);
        drained = new long[words.length()];
    }

    // ---- any thread -------------------------------------------------------------------------------------------

    void set(int chunk) {
        words.getAndAccumulate(chunk / Long.SIZE, 1L << chunk, (old, added) -> old | added);
    }

    /** Returns whether all added numbers were drained. */
    boolean isEmpty() {
        for (int word = 0; word < words.length(); word++) {
            if (words.get(word) != 0) {
                return false;
            }
        }
        return true;
    }

    // ---- the agent --------------------------------------------------------------------------------------------

    /** Moves the present numbers to the agent's part. */
    void drain() {
        firstWord = 0;
        for (int word = 0; word < drained.length; word++) {
            if (words.get(word) != 0) {
                drained[word] |= words.getAndSet(word, 0);
            }
        }
    }

    /** Returns whether a drained number was not polled. */
    boolean hasDrained() {
        while (firstWord < drained.length && drained[firstWord] == 0) {
            firstWord++;
        }
        return firstWord < drained.length;
    }

    /** Removes and returns the lowest drained number; there must be one. */
    int poll() {
        if (!hasDrained()) {
            throw new IllegalStateException("no chunk was drained");
        }
        long lowest = Long.lowestOneBit(drained[firstWord]);
        drained[firstWord] ^= lowest;
        return firstWord * Long.SIZE + Long.numberOfTrailingZeros(lowest);
    }
}
