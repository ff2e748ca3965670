package io.ppmr.target.session;

import java.util.concurrent.atomic.AtomicLongArray;

/**
 * A set of chunk numbers that many threads add to and one agent empties, without a lock and without garbage. The agent
 * takes what is there with {@link #drain} and has it one by one from {@link #poll}; what it does not poll stays.
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

    /** Returns whether nothing was added that was not drained. */
    boolean isEmpty() {
        for (int word = 0; word < words.length(); word++) {
            if (words.get(word) != 0) {
                return false;
            }
        }
        return true;
    }

    // ---- the agent --------------------------------------------------------------------------------------------

    /** Takes what is there now. */
    void drain() {
        firstWord = 0;
        for (int word = 0; word < drained.length; word++) {
            if (words.get(word) != 0) {
                drained[word] |= words.getAndSet(word, 0);
            }
        }
    }

    /** Returns whether something that was drained has not been polled. */
    boolean hasDrained() {
        while (firstWord < drained.length && drained[firstWord] == 0) {
            firstWord++;
        }
        return firstWord < drained.length;
    }

    /** Gives the lowest chunk that was drained, once; there must be one. */
    int poll() {
        if (!hasDrained()) {
            throw new IllegalStateException("no chunk was drained");
        }
        long lowest = Long.lowestOneBit(drained[firstWord]);
        drained[firstWord] ^= lowest;
        return firstWord * Long.SIZE + Long.numberOfTrailingZeros(lowest);
    }
}
