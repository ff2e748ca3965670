package io.ppmr.daemon.log;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.daemon.log.JournalSender.LogEntry;
import io.ppmr.linux.LogContext;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.logging.Handler;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Tests the output at a real Unix socket when something is logged. */
class JournalTest {
    private static final java.util.logging.Logger ROOT = java.util.logging.Logger.getLogger("");
    private static final Logger LOG = LoggerFactory.getLogger(JournalTest.class);
    private static final long MUCH = 1 << 20;

    @TempDir
    private Path directory;

    private Path path;
    private Handler[] before;

    @BeforeEach
    void takeHandlersAway() {
        path = directory.resolve("socket");
        before = ROOT.getHandlers();
        for (Handler handler : before) {
            ROOT.removeHandler(handler);
        }
    }

    @AfterEach
    void putHandlersBack() {
        for (Handler handler : ROOT.getHandlers()) {
            ROOT.removeHandler(handler);
            handler.close();
        }
        for (Handler handler : before) {
            ROOT.addHandler(handler);
        }
    }

    private JournalSender sender(long mostWaitingBytes) throws Exception {
        return new JournalSender(UnixDatagramSocket.to(path.toString(), Duration.ZERO), "ppmr-test", mostWaitingBytes);
    }

    private static byte[] entry(int number) {
        return new LogEntry()
                .add("MESSAGE", "number " + number)
                .add("PRIORITY", "6")
                .datagram();
    }

    @Test
    void shouldLogOtherThreadsAloneWhenSomethingIsDoneInSilence() throws Exception {
        PrintStream standardError = System.err;
        ByteArrayOutputStream written = new ByteArrayOutputStream();
        Thread[] left = new Thread[1];
        CountDownLatch over = new CountDownLatch(1);
        try {
            System.setErr(new PrintStream(written, true, StandardCharsets.UTF_8));
            ServiceLog.begin(Map.of(), "ppmr-test");
            ServiceLog.silently(() -> {
                LOG.error("by the thread itself");
                Thread other = new Thread(() -> LOG.error("by one that it has started"));
                other.start();
                other.join();
                left[0] = new Thread(() -> {
                    awaitQuietly(over);
                    LOG.error("by one that continues afterwards");
                });
                left[0].start();
                return null;
            });
            LOG.error("heard again");
            over.countDown();
            left[0].join();
        } finally {
            over.countDown();
            System.setErr(standardError);
        }
        String text = written.toString(StandardCharsets.UTF_8);
        assertTrue(text.contains("heard again"), text);
        assertFalse(text.contains(" by "), text);
    }

    private static void awaitQuietly(CountDownLatch latch) {
        try {
            latch.await();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    @Test
    void shouldBeOneEntryWithItsFieldsWhenAThreadLogsInAMigration() throws Exception {
        try (Listener listener = new Listener(path)) {
            ROOT.addHandler(new JournalHandler(sender(MUCH), "ppmr-test"));
            try (LogContext.Scope migration = LogContext.migration("abc");
                    LogContext.Scope rank = LogContext.rank(3)) {
                LOG.info("rank {} is written\nand held", 3);
                LOG.error("it fails", new IllegalStateException("for a reason"));
            }
            Map<String, String> first = listener.next();
            assertEquals("rank 3 is written\\nand held", first.get("MESSAGE"));
            assertEquals("6", first.get("PRIORITY"));
            assertEquals("ppmr-test", first.get("SYSLOG_IDENTIFIER"));
            assertEquals("abc", first.get("PPMR_MIGRATION"));
            assertEquals("3", first.get("PPMR_RANK"));
            assertEquals("JournalTest.java", first.get("CODE_FILE"));
            assertTrue(first.get("CODE_FUNC").endsWith("shouldBeOneEntryWithItsFieldsWhenAThreadLogsInAMigration"));
            assertTrue(Integer.parseInt(first.get("CODE_LINE")) > 0);
            assertEquals(10, first.size(), () -> first.toString());
            Map<String, String> second = listener.next();
            assertEquals("3", second.get("PRIORITY"));
            String message = second.get("MESSAGE");
            assertTrue(
                    message.startsWith("it fails\n    java.lang.IllegalStateException: for a reason\n    \tat "),
                    message);
        }
    }

    @Test
    void shouldSayWhatIsLeftOutWhenAMessageIsTooLongForADatagram() throws Exception {
        try (Listener listener = new Listener(path)) {
            ROOT.addHandler(new JournalHandler(sender(MUCH), "ppmr-test"));
            LOG.warn("{}", "x".repeat(LogEntry.MAX_VALUE_BYTES + 7));
            Map<String, String> entry = listener.next();
            assertTrue(entry.get("MESSAGE").endsWith("x ... (7 bytes left out)"));
            assertEquals("4", entry.get("PRIORITY"));
        }
    }

    @Test
    void shouldNotWaitAndLoseNothingWhenTheJournalDoesNotRead() throws Exception {
        int count = 3000;
        try (Listener listener = new Listener(path);
                JournalSender sender = sender(MUCH)) {
            long startNs = System.nanoTime();
            for (int i = 0; i < count; i++) {
                sender.send(entry(i));
            }
            long tookMs = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - startNs);
            assertTrue(tookMs < 10_000, () -> count + " entries took " + tookMs + " ms");
            for (int i = 0; i < count; i++) {
                assertEquals("number " + i, listener.next().get("MESSAGE"));
            }
        }
    }

    @Test
    void shouldSayHowManyAreLostWhenMoreWaitThanMay() throws Exception {
        int count = 2000;
        try (Listener listener = new Listener(path);
                JournalSender sender = sender(1000)) {
            for (int i = 0; i < count; i++) {
                sender.send(entry(i));
            }
            int came = 0;
            Map<String, String> next = listener.next();
            while (next.get("MESSAGE").equals("number " + came)) {
                came++;
                next = listener.next();
            }
            assertTrue(came < count);
            assertTrue(next.get("MESSAGE").startsWith(count - came + " log entries are lost: "), next.get("MESSAGE"));
            sender.send(entry(count));
            assertEquals("number " + count, listener.next().get("MESSAGE"));
        }
    }

    @Test
    void shouldGoOnWhenTheJournalsSocketIsMadeAnew() throws Exception {
        Listener old = new Listener(path);
        try (JournalSender sender = sender(MUCH)) {
            sender.send(entry(1));
            assertEquals("number 1", old.next().get("MESSAGE"));
            old.close();
            sender.send(entry(2));
            try (Listener again = new Listener(path)) {
                sender.send(entry(3));
                assertEquals("number 2", again.next().get("MESSAGE"));
                assertEquals("number 3", again.next().get("MESSAGE"));
            }
        } finally {
            old.close();
        }
    }

    @Test
    void shouldSendWhatWaitsWhenTheProgramEnds() throws Exception {
        try (Listener listener = new Listener(path)) {
            JournalSender sender = sender(MUCH);
            for (int i = 0; i < 500; i++) {
                sender.send(entry(i));
            }
            Thread ending = new Thread(sender::close, "ending");
            ending.start();
            for (int i = 0; i < 500; i++) {
                assertEquals("number " + i, listener.next().get("MESSAGE"));
            }
            ending.join();
        }
    }

    @Test
    void shouldStayPlainWhenStandardErrorLeadsElsewhere() throws Exception {
        try {
            ServiceLog.begin(Map.of("JOURNAL_STREAM", "1:2", ServiceLog.LEVEL, "warn"), "ppmr-test", path);
            assertEquals(1, ROOT.getHandlers().length);
            assertFalse(ROOT.getHandlers()[0] instanceof JournalHandler);
            assertFalse(LOG.isInfoEnabled());
            assertTrue(LOG.isWarnEnabled());
        } finally {
            ROOT.setLevel(java.util.logging.Level.INFO);
        }
    }

    /** Reads datagrams as journald does. */
    private static final class Listener implements AutoCloseable {
        private final DatagramListener socket;

        Listener(Path path) throws IOException {
            socket = new DatagramListener(path.toString());
        }

        /** Returns the fields of the next entry. Throws if none arrives. */
        Map<String, String> next() throws IOException {
            byte[] datagram = socket.next();
            return fields(datagram, ByteBuffer.wrap(datagram).order(ByteOrder.LITTLE_ENDIAN));
        }

        private static Map<String, String> fields(byte[] bytes, ByteBuffer datagram) {
            Map<String, String> fields = new HashMap<>();
            while (datagram.hasRemaining()) {
                String line = until(bytes, datagram);
                int equals = line.indexOf('=');
                if (equals >= 0) {
                    fields.put(line.substring(0, equals), line.substring(equals + 1));
                } else {
                    byte[] value = new byte[(int) datagram.getLong()];
                    datagram.get(value);
                    fields.put(line, new String(value, StandardCharsets.UTF_8));
                    if (datagram.get() != '\n') {
                        throw new IllegalStateException("no line end after the value of " + line);
                    }
                }
            }
            return fields;
        }

        private static String until(byte[] bytes, ByteBuffer datagram) {
            int start = datagram.position();
            while (datagram.get() != '\n') {
                if (!datagram.hasRemaining()) {
                    throw new IllegalStateException("a field without an end");
                }
            }
            return new String(bytes, start, datagram.position() - 1 - start, StandardCharsets.UTF_8);
        }

        @Override
        public void close() throws IOException {
            socket.close();
        }
    }
}
