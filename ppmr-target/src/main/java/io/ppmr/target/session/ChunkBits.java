package io.ppmr.target.session;

import java.util.concurrent.atomic.AtomicLongArray;
import java.util.function.IntConsumer;

/** A set of chunk numbers that many threads add to and one agent empties, without a lock and without garbage. */
final class ChunkBits {
    private final AtomicLongArray words;

    ChunkBits(int chunks) {
        words = new AtomicLongArray((chunks + 63) / 64);
    }

    void set(int chunk) {
        int word = chunk >> 6;
        long bit = 1L << chunk;
        words.getAndAccumulate(word, bit, (old, added) -> old | added);
    }

    boolean isEmpty() {
        for (int word = 0; word < words.length(); word++) {
            if (words.get(word) != 0) {
                return false;
            }
        }
        return true;
    }

    /** Adds what is there now to {@code taken}, for {@link #forEach}. */
    void drainTo(long[] taken) {
        for (int word = 0; word < taken.length; word++) {
            if (words.get(word) != 0) {
                taken[word] |= words.getAndSet(word, 0);
            }
        }
    }

    int wordCount() {
        return words.length();
    }

    /** Gives every chunk in {@code taken} to the action and empties it; gives how many there were. */
    static int forEach(long[] taken, IntConsumer action) {
        int count = 0;
        for (int word = 0; word < taken.length; word++) {
            count += forEach(taken, word, action);
        }
        return count;
    }

    /** The same for one word, which holds at most 64 chunks. */
    static int forEach(long[] taken, int word, IntConsumer action) {
        int count = 0;
        while (taken[word] != 0) {
            long lowest = taken[word] & -taken[word];
            taken[word] ^= lowest;
            action.accept(word * 64 + Long.numberOfTrailingZeros(lowest));
            count++;
        }
        return count;
    }
}
