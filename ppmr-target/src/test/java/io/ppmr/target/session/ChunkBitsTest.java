package io.ppmr.target.session;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

class ChunkBitsTest {
    @Test
    void shouldReturnEachChunkOnceInAscendingOrder() {
        ChunkBits bits = new ChunkBits(200);
        assertTrue(bits.isEmpty());
        for (int chunk : new int[] {199, 63, 64, 0, 127, 128, 63}) {
            bits.set(chunk);
        }
        assertFalse(bits.isEmpty());
        assertFalse(bits.hasDrained());
        bits.drain();
        assertTrue(bits.isEmpty());
        assertEquals(List.of(0, 63, 64, 127, 128, 199), poll(bits));
        assertFalse(bits.hasDrained());
        assertThrows(IllegalStateException.class, bits::poll);
    }

    @Test
    void shouldKeepEarlierChunksWhenItIsDrainedAgain() {
        ChunkBits bits = new ChunkBits(64);
        bits.set(2);
        bits.drain();
        bits.set(1);
        bits.drain();
        assertEquals(List.of(1, 2), poll(bits));
    }

    private static List<Integer> poll(ChunkBits bits) {
        List<Integer> got = new ArrayList<>();
        while (bits.hasDrained()) {
            got.add(bits.poll());
        }
        return got;
    }

    @Test
    void shouldLoseAndDuplicateNoneWhenManyThreadsSet() throws Exception {
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
        int doubled = 0;
        int got = 0;
        long deadlineNs = System.nanoTime() + TimeUnit.SECONDS.toNanos(60L * Integer.getInteger("ppmr.patience", 1));
        while (got < threads * rounds && System.nanoTime() - deadlineNs < 0) {
            bits.drain();
            for (; bits.hasDrained(); got++) {
                doubled += outstanding[bits.poll()].decrementAndGet() == 0 ? 0 : 1;
            }
        }
        assertEquals(threads * rounds, got);
        assertEquals(0, doubled, "chunks that were given twice");
        for (Thread thread : setters) {
            thread.join(60_000);
        }
    }
}
