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

    /** Takes what is there now, for {@link #forEach}. */
    void drainTo(long[] taken) {
        for (int word = 0; word < taken.length; word++) {
            taken[word] = words.get(word) == 0 ? 0 : words.getAndSet(word, 0);
        }
    }

    int wordCount() {
        return words.length();
    }

    static int forEach(long[] taken, IntConsumer action) {
        int count = 0;
        for (int word = 0; word < taken.length; word++) {
            for (long bits = taken[word]; bits != 0; bits &= bits - 1) {
                action.accept(word * 64 + Long.numberOfTrailingZeros(bits));
                count++;
            }
        }
        return count;
    }
}
