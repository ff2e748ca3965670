package io.ppmr.linux;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentSkipListSet;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(30)
class ParallelWorkTest {
    @Test
    void shouldDoAllOfItAtTheSameTime() throws Exception {
        CountDownLatch met = new CountDownLatch(3);
        ParallelWork.forEach("work", List.of(1, 2, 3), item -> {
            met.countDown();
            requireMet(met);
        });
        ParallelWork.forEach("work", List.<Integer>of(), item -> {
            throw new IOException("nothing to do");
        });
    }

    private static void requireMet(CountDownLatch met) throws IOException {
        try {
            if (!met.await(20, TimeUnit.SECONDS)) {
                throw new IOException("the others have not begun");
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IOException("interrupted", e);
        }
    }

    @Test
    void shouldThrowAFailureOnlyWhenAllEnded() {
        Set<Integer> ended = new ConcurrentSkipListSet<>();
        CountDownLatch failed = new CountDownLatch(1);
        IOException failure = assertThrows(
                IOException.class,
                () -> ParallelWork.forEach("work", List.of(1, 2, 3), item -> {
                    if (item == 1) {
                        failed.countDown();
                        throw new IOException("the first");
                    }
                    requireMet(failed);
                    ended.add(item);
                }));
        assertEquals("the first", failure.getMessage());
        assertEquals(Set.of(2, 3), ended);
        IOException defect = assertThrows(
                IOException.class,
                () -> ParallelWork.forEach("work", List.of(1), item -> {
                    throw new IllegalStateException("a defect of the work");
                }));
        assertTrue(defect.getMessage().contains("a defect of the work"), defect.getMessage());
    }

    @Test
    void shouldStayInterruptedAndEndTheWorkWhenItsCallerIsInterrupted() throws Exception {
        Set<Integer> ended = new ConcurrentSkipListSet<>();
        Thread.currentThread().interrupt();
        ParallelWork.forEach("work", List.of(1, 2), ended::add);
        assertTrue(Thread.interrupted(), "the flag is set again");
        assertEquals(Set.of(1, 2), ended);
    }
}
