package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.channels.SocketChannel;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import org.junit.jupiter.api.RepeatedTest;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Whole migrations while an unauthenticated peer opens connections to the target and sends nothing. */
@Timeout(value = 400, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class StrangersIT {
    private static final int ALL_PLACES = 600;
    private static final long END_MS = 20_000;
    private static final long STEP_NS = TimeUnit.SECONDS.toNanos(1) / 50;

    @TempDir
    private Path directory;

    /** Occupies all places at once, then opens fifty connections a second, from the source's own address. */
    private static final class Stranger implements AutoCloseable {
        private final InetSocketAddress address;
        private final Deque<SocketChannel> idle = new ArrayDeque<>();
        private final AtomicInteger opened = new AtomicInteger();
        private final AtomicReference<IOException> failure = new AtomicReference<>();
        private final Thread thread = new Thread(this::run, "stranger");
        private volatile boolean ended;

        Stranger(int port) throws IOException {
            address = new InetSocketAddress(InetAddress.getLoopbackAddress(), port);
            for (int i = 0; i < ALL_PLACES; i++) {
                connect();
            }
            thread.start();
        }

        private void connect() throws IOException {
            idle.add(SocketChannel.open(address));
            opened.incrementAndGet();
            if (idle.size() > 2 * ALL_PLACES) {
                idle.remove().close();
            }
        }

        private void run() {
            long nextNs = System.nanoTime();
            try {
                while (!ended) {
                    connect();
                    nextNs += STEP_NS;
                    LockSupport.parkNanos(nextNs - System.nanoTime());
                }
            } catch (IOException e) {
                failure.set(e);
            }
        }

        @Override
        public void close() throws IOException {
            ended = true;
            try {
                thread.join(END_MS);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
            assertFalse(thread.isAlive(), "the stranger does not end");
            for (SocketChannel one : idle) {
                one.close();
            }
            if (failure.get() != null) {
                throw failure.get();
            }
        }
    }

    @Test
    void shouldCommitWhileAStrangerHoldsAllPlacesAndOpensFiftyConnectionsASecond() throws Exception {
        try (ReplayJob job = new ReplayJob(directory)
                        .rank(
                                List.of("open image wcxn", "write 64m 64k", "pause 1000", "write 4m 64k", "close"),
                                List.of("open image r", "read 68m 64k", "close"));
                RealServices services = new RealServices(directory)) {
            services.startTarget(job);
            services.startSource(job);
            int opened;
            try (Stranger stranger = new Stranger(services.port())) {
                assertEquals(0, services.migrate(directory.resolve("report.json")), () -> text(services));
                opened = stranger.opened.get();
            }
            assertTrue(opened >= ALL_PLACES + 50, "only " + opened + " connections were opened");
            String log = services.log("target");
            long lines = log.lines()
                    .filter(line -> line.contains("a connection from"))
                    .count();
            assertTrue(lines >= 1 && lines <= 20, lines + " lines about " + opened + " connections:\n" + log);
        }
    }

    /** An attack depends on the moments at which it comes. */
    @Tag("soak")
    @RepeatedTest(3)
    void shouldCommitAgainAndAgainWhileAStrangerHoldsAllPlaces() throws Exception {
        shouldCommitWhileAStrangerHoldsAllPlacesAndOpensFiftyConnectionsASecond();
    }

    private static String text(RealServices services) {
        try {
            return services.log("migrate") + services.log("source") + services.log("target");
        } catch (IOException e) {
            return e.toString();
        }
    }
}
