package io.ppmr.target.session;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

class ChunkBitsTest {
    @Test
    void shouldGiveEachChunkOnceInAscendingOrder() {
        ChunkBits bits = new ChunkBits(200);
        assertEquals(4, bits.wordCount());
        assertTrue(bits.isEmpty());
        for (int chunk : new int[] {199, 63, 64, 0, 127, 128, 63}) {
            bits.set(chunk);
        }
        assertFalse(bits.isEmpty());
        long[] taken = new long[bits.wordCount()];
        bits.drainTo(taken);
        assertTrue(bits.isEmpty());
        List<Integer> got = new ArrayList<>();
        assertEquals(6, ChunkBits.forEach(taken, got::add));
        assertEquals(List.of(0, 63, 64, 127, 128, 199), got);
        assertEquals(0, ChunkBits.forEach(taken, got::add));
    }

    @Test
    void shouldKeepWhatWasTakenBeforeWhenItIsDrainedAgain() {
        ChunkBits bits = new ChunkBits(64);
        long[] taken = new long[1];
        bits.set(1);
        bits.drainTo(taken);
        bits.set(2);
        bits.drainTo(taken);
        assertEquals(2, ChunkBits.forEach(taken, chunk -> {}));
    }

    @Test
    void shouldLoseNoneAndDoubleNoneWhenManyThreadsSet() throws Exception {
        int threads = 4;
        int perThread = 32;
        int rounds = 3_000;
        ChunkBits bits = new ChunkBits(threads * perThread);
        AtomicInteger[] outstanding = new AtomicInteger[threads * perThread];
        for (int i = 0; i < outstanding.length; i++) {
            outstanding[i] = new AtomicInteger();
        }
        List<Thread> setters = new ArrayList<>();
        for (int t = 0; t < threads; t++) {
            int first = t * perThread;
            Thread thread = new Thread(() -> {
                for (int round = 0; round < rounds; round++) {
                    int chunk = first + round % perThread;
                    while (outstanding[chunk].get() != 0) {
                        Thread.onSpinWait();
                    }
                    outstanding[chunk].set(1);
                    bits.set(chunk);
                }
            });
            thread.setDaemon(true);
            setters.add(thread);
            thread.start();
        }
        long[] taken = new long[bits.wordCount()];
        int[] doubled = new int[1];
        int got = 0;
        long deadlineNs = System.nanoTime() + 20_000_000_000L;
        while (got < threads * rounds && System.nanoTime() - deadlineNs < 0) {
            bits.drainTo(taken);
            got += ChunkBits.forEach(taken, chunk -> doubled[0] += outstanding[chunk].decrementAndGet() == 0 ? 0 : 1);
        }
        assertEquals(threads * rounds, got);
        assertEquals(0, doubled[0], "chunks that were given twice");
        for (Thread thread : setters) {
            thread.join(5_000);
        }
    }
}
