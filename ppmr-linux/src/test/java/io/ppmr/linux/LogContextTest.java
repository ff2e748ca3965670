package io.ppmr.linux;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;

class LogContextTest {
    private static Map<String, String> fields() {
        return LogContext.current().fields();
    }

    @Test
    void shouldRestorePreviousFieldsWhenAScopeIsClosed() {
        try (LogContext.Scope migration = LogContext.migration("abc")) {
            try (LogContext.Scope rank = LogContext.rank(3);
                    LogContext.Scope peer = LogContext.peer("node:1")) {
                assertEquals(Map.of("PPMR_MIGRATION", "abc", "PPMR_RANK", "3", "PPMR_PEER", "node:1"), fields());
                try (LogContext.Scope another = LogContext.rank(4)) {
                    assertEquals("4", fields().get("PPMR_RANK"));
                }
                assertEquals("3", fields().get("PPMR_RANK"));
            }
            assertEquals(Map.of("PPMR_MIGRATION", "abc"), fields());
        }
        assertEquals(Map.of(), fields());
    }

    @Test
    void shouldLeaveNothingBehindOnAPooledThreadWhenTheWorkFails() throws Exception {
        ExecutorService pool = Executors.newSingleThreadExecutor();
        try {
            var failing = pool.submit(() -> {
                try (LogContext.Scope rank = LogContext.rank(3)) {
                    throw new IllegalStateException("for a reason");
                }
            });
            assertThrows(Exception.class, () -> failing.get(60, TimeUnit.SECONDS));
            assertEquals(Map.of(), pool.submit(LogContextTest::fields).get(60, TimeUnit.SECONDS));
        } finally {
            pool.shutdown();
        }
    }

    @Test
    void shouldNotBeInheritedWhenAThreadIsStartedOrAPoolGrows() throws Exception {
        AtomicReference<Map<String, String>> seen = new AtomicReference<>();
        try (LogContext.Scope migration = LogContext.migration("abc")) {
            Thread stranger = new Thread(() -> seen.set(fields()), "stranger");
            stranger.start();
            stranger.join();
        }
        assertEquals(Map.of(), seen.get());
    }

    @Test
    void shouldPassItsFieldsToAThreadThatWorksForIt() throws Exception {
        AtomicReference<Map<String, String>> seen = new AtomicReference<>();
        Thread worker;
        try (LogContext.Scope migration = LogContext.migration("abc")) {
            worker = LogContext.thread(() -> seen.set(fields()), "worker");
        }
        assertTrue(worker.isDaemon());
        worker.start();
        worker.join();
        assertEquals(Map.of("PPMR_MIGRATION", "abc"), seen.get());
    }

    @Test
    void shouldLogWithTheFieldsOfTheOriginalThread() {
        LogContext context = LogContext.of("abc", 7);
        try (LogContext.Scope peer = LogContext.peer("node:1")) {
            context.logging(() -> assertEquals(Map.of("PPMR_MIGRATION", "abc", "PPMR_RANK", "7"), fields()));
            assertEquals(Map.of("PPMR_PEER", "node:1"), fields());
        }
    }
}
