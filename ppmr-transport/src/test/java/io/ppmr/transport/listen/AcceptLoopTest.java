package io.ppmr.transport.listen;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.transport.Loopback;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.net.SocketTimeoutException;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class AcceptLoopTest {
    private static final Duration LONG = Duration.ofMinutes(5);
    private static final long LIMIT_NS = TimeUnit.SECONDS.toNanos(30);

    private final List<SocketChannel> clients = new ArrayList<>();

    @AfterEach
    void hangUp() throws IOException {
        for (SocketChannel client : clients) {
            client.close();
        }
    }

    /** Sends "x" to each client that sent a byte. */
    static final class Echo implements AcceptLoop.ConnectionHandler {
        private final SocketChannel channel;

        Echo(SocketChannel channel) {
            this.channel = channel;
        }

        @Override
        public int proceed() throws IOException {
            int read = channel.read(ByteBuffer.allocate(1));
            if (read < 0) {
                throw new IOException("it has ended");
            }
            return read == 0 ? SelectionKey.OP_READ : ADMITTED;
        }

        @Override
        public void takeOver(SocketChannel admitted) throws IOException {
            admitted.write(ByteBuffer.wrap(new byte[] {'x'}));
            admitted.close();
        }
    }

    static ServerSocketChannel bound() throws IOException {
        return ServerSocketChannel.open().bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0));
    }

    private SocketChannel client(ServerSocketChannel server) throws IOException {
        return client(server.getLocalAddress());
    }

    private SocketChannel client(SocketAddress address) throws IOException {
        SocketChannel client = SocketChannel.open(address);
        clients.add(client);
        return client;
    }

    /** Returns what a client receives within a time: -1 for the end, 'x' for the answer. */
    private static int hear(SocketChannel client, int limitMs) throws IOException {
        client.socket().setSoTimeout(limitMs);
        try {
            return client.socket().getInputStream().read();
        } catch (SocketTimeoutException e) {
            throw e;
        } catch (IOException e) {
            return -1; // a reset is an end, too
        }
    }

    private static void speak(SocketChannel client) throws IOException {
        client.write(ByteBuffer.wrap(new byte[] {'?'}));
    }

    @Test
    void shouldServeAnActiveClientWhileIdleConnectionsHaveAllPlaces() throws Exception {
        try (ServerSocketChannel server = bound();
                AcceptLoop loop =
                        new AcceptLoop("test", server, new AcceptLoop.ConnectionLimits(8, 8, LONG), Echo::new)) {
            List<SocketChannel> idle = new ArrayList<>();
            for (int i = 0; i < 8; i++) {
                idle.add(client(server));
            }
            SocketChannel speaks = client(server);
            speak(speaks);
            assertEquals('x', hear(speaks, 30_000));
            assertEquals(-1, hear(idle.get(0), 30_000), "the oldest has gone");
            assertThrows(SocketTimeoutException.class, () -> hear(idle.get(1), 50), "and no other process");
            speak(idle.get(7));
            assertEquals('x', hear(idle.get(7), 30_000));
            assertTrue(loop.responds(LIMIT_NS));
        }
        assertEquals(-1, hear(clients.get(3), 30_000), "with the loop all end that were not admitted");
    }

    @Test
    void shouldCloseASilentConnectionAndFreeTheAddressWhenClosed() throws Exception {
        // A separate address: on the common one another test may use the port as soon as it is free.
        ServerSocketChannel server = ServerSocketChannel.open().bind(new InetSocketAddress("127.0.0.77", 0));
        InetSocketAddress address = (InetSocketAddress) server.getLocalAddress();
        try (AcceptLoop loop = new AcceptLoop(
                "test", server, new AcceptLoop.ConnectionLimits(8, 8, Duration.ofMillis(200)), Echo::new)) {
            SocketChannel silent = client(server);
            assertEquals(-1, hear(silent, 30_000));
            assertTrue(loop.responds(LIMIT_NS));
        }
        try (ServerSocketChannel again = ServerSocketChannel.open()) {
            again.bind(address);
        }
    }

    @Test
    void shouldContinueWithoutSpinningWhenNothingCanBeAccepted() throws Exception {
        AtomicReference<Throwable> failure = new AtomicReference<>();
        AtomicInteger attempts = new AtomicInteger();
        try (ServerSocketChannel server = bound();
                AcceptLoop loop = new AcceptLoop(
                        "test",
                        server,
                        () -> {
                            Throwable now = failure.get();
                            if (now != null) {
                                attempts.incrementAndGet();
                                AcceptLoopTest.<RuntimeException>raise(now);
                            }
                            return server.accept();
                        },
                        new AcceptLoop.ConnectionLimits(8, 8, LONG),
                        Echo::new)) {
            SocketChannel idle = client(server);
            // Connected before any failure, so that it has a place.
            assertTrue(loop.responds(LIMIT_NS));
            SocketChannel before = client(server);
            speak(before);
            assertEquals('x', hear(before, 30_000));
            for (Throwable now : List.of(
                    new IOException("Too many open files"),
                    new OutOfMemoryError("unable to create native thread"),
                    new IllegalStateException("a defect"))) {
                failure.set(now);
                attempts.set(0);
                long startNs = System.nanoTime();
                SocketChannel waits = client(server);
                speak(waits);
                Loopback.until("it was tried five times", () -> attempts.get() >= 5);
                // Before the clock, so that later attempts had the whole time.
                int tried = attempts.get();
                long passedMs = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - startNs);
                assertTrue(tried <= 2 + passedMs / 100, tried + " attempts in " + passedMs + " ms");
                assertTrue(loop.responds(LIMIT_NS), "a watchdog need not end it");
                failure.set(null);
                assertEquals('x', hear(waits, 30_000), "who waited in the kernel is served");
            }
            assertEquals(-1, hear(idle, 30_000), "an idle connection's descriptor was closed");
        }
    }

    @Test
    void shouldRefuseOneAndServeTheNextWhenAServiceFails() throws Exception {
        AtomicInteger count = new AtomicInteger();
        try (ServerSocketChannel server = bound();
                AcceptLoop loop =
                        new AcceptLoop("test", server, new AcceptLoop.ConnectionLimits(8, 8, LONG), channel -> {
                            if (count.getAndIncrement() == 0) {
                                throw new IllegalStateException("a defect");
                            }
                            Echo echo = new Echo(channel);
                            boolean threadless = count.get() == 2;
                            return new AcceptLoop.ConnectionHandler() {
                                @Override
                                public int proceed() throws IOException {
                                    return echo.proceed();
                                }

                                @Override
                                public void takeOver(SocketChannel admitted) throws IOException {
                                    if (threadless) {
                                        throw new OutOfMemoryError("unable to create native thread");
                                    }
                                    echo.takeOver(admitted);
                                }
                            };
                        })) {
            for (int expected : new int[] {-1, -1, 'x'}) {
                SocketChannel client = client(server);
                speak(client);
                assertEquals(expected, hear(client, 30_000));
            }
            assertTrue(loop.responds(LIMIT_NS));
        }
    }

    @Test
    void shouldReportAHangingThreadToAWatchdog() throws Exception {
        AtomicReference<Thread> hangs = new AtomicReference<>();
        try (ServerSocketChannel server = bound();
                AcceptLoop loop =
                        new AcceptLoop("test", server, new AcceptLoop.ConnectionLimits(8, 8, LONG), channel -> {
                            hangs.set(Thread.currentThread());
                            try {
                                new java.util.concurrent.CountDownLatch(1).await();
                            } catch (InterruptedException e) {
                                throw new IOException("the test lets it go", e);
                            }
                            throw new IOException("never");
                        })) {
            assertTrue(loop.responds(LIMIT_NS));
            client(server);
            Loopback.until("its thread hangs", () -> hangs.get() != null);
            assertFalse(loop.responds(TimeUnit.MILLISECONDS.toNanos(300)));
            hangs.get().interrupt();
            assertTrue(loop.responds(LIMIT_NS));
        }
    }

    /** A separate process, whose descriptors are really exhausted. */
    @Test
    void shouldServeAgainAfterDescriptorsWereExhausted() throws Exception {
        String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
        Process child = new ProcessBuilder(
                        "sh",
                        "-c",
                        "ulimit -n 200 && exec \"$@\"",
                        "sh",
                        java,
                        "-XX:+UseSerialGC",
                        "-cp",
                        System.getProperty("java.class.path"),
                        ExhaustedListener.class.getName())
                .redirectError(ProcessBuilder.Redirect.INHERIT)
                .start();
        try (var lines = child.inputReader(StandardCharsets.US_ASCII);
                var commands = child.outputWriter(StandardCharsets.US_ASCII)) {
            int port = Integer.parseInt(lines.readLine());
            SocketChannel waits = client(new InetSocketAddress(InetAddress.getLoopbackAddress(), port));
            speak(waits);
            // Two seconds without a free descriptor, by the child's clock; it reports the processor time.
            long cpuMs = Long.parseLong(lines.readLine());
            assertTrue(cpuMs < 500, "its listener's thread used " + cpuMs + " ms of processor time in 2 s");
            assertThrows(SocketTimeoutException.class, () -> hear(waits, 50), "it cannot be accepted");
            commands.write("free\n");
            commands.flush();
            assertEquals('x', hear(waits, 30_000));
        } finally {
            child.destroyForcibly();
            assertTrue(child.waitFor(60, TimeUnit.SECONDS));
        }
    }

    @SuppressWarnings("unchecked")
    private static <E extends Throwable> void raise(Throwable failure) throws E {
        throw (E) failure;
    }
}
