package io.ppmr.cluster.job;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(value = 60, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class DirectoryCallsTest {
    private static final Path HANGS = Path.of("/hangs");
    private static final Path ANSWERS = Path.of("/answers");
    private static final Duration SHORT = Duration.ofMillis(50);
    private static final Duration LONG = Duration.ofSeconds(50);

    private final DirectoryCalls calls = new DirectoryCalls("test-files");
    private final CountDownLatch server = new CountDownLatch(1);

    private String hang() {
        try {
            server.await();
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
        return "late";
    }

    @Test
    void shouldReturnTheResultAndTheFailureOfAnAccess() throws Exception {
        assertEquals("there", calls.call(ANSWERS, LONG, () -> "there"));
        IOException failure = assertThrows(
                IOException.class,
                () -> calls.call(ANSWERS, LONG, () -> {
                    throw new NoSuchFileException("gone");
                }));
        assertEquals("gone", failure.getMessage());
        assertEquals("there", calls.call(ANSWERS, LONG, () -> "there"));
    }

    @Test
    void shouldDelayNothingElseWhenADirectoryDoesNotAnswer() throws Exception {
        IOException refused = assertThrows(IOException.class, () -> calls.call(HANGS, SHORT, this::hang));
        assertTrue(
                refused.getMessage().contains("/hangs") && refused.getMessage().contains("Remedy"));
        // The next callers do not wait for it, too, whatever their limit is.
        assertThrows(IOException.class, () -> calls.call(HANGS, LONG, () -> "unseen"));
        assertFalse(calls.start(HANGS, () -> {}));
        assertEquals("there", calls.call(ANSWERS, LONG, () -> "there"));
        server.countDown();
        String answer = "";
        while (answer.isEmpty()) {
            try {
                answer = calls.call(HANGS, LONG, () -> "there");
            } catch (IOException stillLate) {
                LockSupport.parkNanos(1_000_000);
            }
        }
        assertEquals("there", answer);
    }

    @Test
    void shouldWaitForAnAccessOfAnotherCaller() throws Exception {
        assertTrue(calls.start(HANGS, this::hang));
        assertFalse(calls.start(HANGS, () -> {}));
        Thread later = new Thread(server::countDown);
        later.start();
        assertEquals("there", calls.call(HANGS, LONG, () -> "there"));
        later.join();
    }
}
