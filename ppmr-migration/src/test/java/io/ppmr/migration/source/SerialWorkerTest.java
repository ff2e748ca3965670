package io.ppmr.migration.source;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Tests blocking work, piece by piece. */
@Timeout(value = 60, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class SerialWorkerTest {
    private static final Duration LIMIT = Duration.ofSeconds(10L * Integer.getInteger("ppmr.patience", 1));

    private final Semaphore ended = new Semaphore(0);
    private final Semaphore looks = new Semaphore(0);
    private final List<String> done = Collections.synchronizedList(new ArrayList<>());
    private volatile boolean due;
    private volatile boolean breaks;
    private final SerialWorker worker = new SerialWorker(
            "a-worker",
            new SerialWorker.RepeatedWork() {
                @Override
                public boolean isDue() {
                    return due;
                }

                @Override
                public void work() {
                    looks.release();
                    if (breaks) {
                        breaks = false;
                        throw new OutOfMemoryError("unable to create native thread");
                    }
                }
            },
            ended::release);

    @Test
    void shouldGoOnWhenRepeatedWorkBreaksByAnError() throws Exception {
        breaks = true;
        due = true;
        worker.start(() -> 0).get();
        looks.acquire(2);
        assertEquals(1, worker.start(() -> 1).get());
    }

    @Test
    void shouldDoThePiecesInOrderAndTellOfEach() throws Exception {
        CountDownLatch go = new CountDownLatch(1);
        Future<Integer> first = worker.start(() -> {
            go.await();
            done.add("first");
            return 1;
        });
        Future<Integer> second = worker.start(() -> {
            done.add("second");
            return 2;
        });
        assertFalse(first.isDone());
        go.countDown();
        assertEquals(2, second.get());
        assertEquals(1, first.get());
        ended.acquire(2);
        assertEquals(List.of("first", "second"), done);
        assertTrue(worker.close(LIMIT));
    }

    @Test
    void shouldGoOnWhenAPieceFailsOrIsInterrupted() throws Exception {
        Future<Object> fails = worker.start(() -> {
            throw new IOException("a broken disk");
        });
        Future<Object> interrupted = worker.start(() -> {
            Thread.currentThread().interrupt();
            return "interrupted";
        });
        assertEquals(3, worker.start(() -> 3).get());
        assertEquals("interrupted", interrupted.get());
        assertEquals(
                "a broken disk",
                assertThrows(ExecutionException.class, fails::get).getCause().getMessage());
        assertTrue(worker.close(LIMIT));
    }

    @Test
    void shouldLookAgainAndAgainWhileItIsDueAndNoPieceWaits() throws Exception {
        worker.start(() -> due = true).get();
        looks.acquire(3);
        worker.start(() -> due = false).get();
        looks.drainPermits();
        assertEquals(4, worker.start(() -> 4).get());
        assertEquals(0, looks.availablePermits());
        assertTrue(worker.close(LIMIT));
    }

    @Test
    void shouldDoWhatWaitsBeforeItEnds() throws Exception {
        CountDownLatch go = new CountDownLatch(1);
        Future<Boolean> late = worker.start(() -> {
            go.await();
            return done.add("late");
        });
        assertFalse(worker.close(Duration.ofMillis(20)), "it is not done yet");
        go.countDown();
        assertTrue(worker.close(LIMIT));
        assertTrue(late.isDone());
        assertEquals(List.of("late"), done);
    }
}
