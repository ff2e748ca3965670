package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.daemon.config.KeyFile;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.ProcessFigures;
import io.ppmr.testbed.ServiceProcess;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadInfo;
import java.lang.management.ThreadMXBean;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** A service that has nothing to do does nothing. */
@Timeout(value = 90, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class IdleIT {
    private static final Duration SETTLING = Duration.ofSeconds(4);
    private static final Duration WATCHED = Duration.ofSeconds(10);
    private static final Duration WAITING = Duration.ofSeconds(6);
    private static final double AT_MOST_OF_A_CORE = 0.01;
    private static final double AT_MOST_WHILE_WAITING = 0.25;

    @TempDir
    private Path directory;

    @Test
    void shouldUseNoProcessorToSpeakOfWhenNothingMoves() throws Exception {
        Path key = directory.resolve("key");
        KeyFile.create(key);
        int port = freePort();
        try (ServiceProcess target = ServiceProcess.start(
                        "target",
                        directory,
                        "key_file = '" + key + "'",
                        "control_socket = '" + directory.resolve("target.sock") + "'",
                        "listen = '127.0.0.1:" + port + "'",
                        "[checkpointers.any]",
                        "type = 'command'",
                        "checkpoint = ['true']",
                        "restart = ['true']");
                ServiceProcess source = ServiceProcess.start(
                        "source",
                        directory,
                        "key_file = '" + key + "'",
                        "control_socket = '" + directory.resolve("source.sock") + "'",
                        "[target]",
                        "address = '127.0.0.1:" + port + "'")) {
            pass(SETTLING);
            ProcessFigures targetBefore = target.figures();
            ProcessFigures sourceBefore = source.figures();
            pass(WATCHED);
            assertIdle("target", targetBefore, target.figures());
            assertIdle("source", sourceBefore, source.figures());
        }
    }

    private static void assertIdle(String role, ProcessFigures before, ProcessFigures after) {
        double cpuMs = (after.cpuSeconds() - before.cpuSeconds()) * 1000;
        long wakeUps = after.wakeUps() - before.wakeUps();
        System.out.printf(
                "figure: idle %s: %.0f ms of processor time and %.1f wake-ups a second in %d s%n",
                role, cpuMs, wakeUps / (double) WATCHED.toSeconds(), WATCHED.toSeconds());
        assertTrue(cpuMs <= WATCHED.toMillis() * AT_MOST_OF_A_CORE, role + " has used " + cpuMs + " ms");
    }

    @Test
    void shouldUseLittleProcessorWhenAMigrationWaits() throws Exception {
        try (ReplayJob job = new ReplayJob(directory)) {
            Path goOn = job.outside("go-on");
            Path read = job.outside("read");
            job.rank(
                    List.of("open image wcx", "write 1m", "await " + goOn, "write 1m", "close"),
                    List.of("open image r", "read 1m", "touch " + read, "read 1m", "eof"));
            try (ServicePair pair = new ServicePair(directory, ServicePair.Options.with(job.checkpointer()))) {
                CompletableFuture<MigrationReport> migration = CompletableFuture.supplyAsync(() -> {
                    try {
                        return job.commits(pair);
                    } catch (InterruptedException e) {
                        throw new IllegalStateException(e);
                    }
                });
                Conditions.get(() -> Files.exists(read) ? true : null);
                assertThrows(TimeoutException.class, () -> migration.get(2, TimeUnit.SECONDS));
                double beforeMs = ourThreadsMs();
                assertThrows(TimeoutException.class, () -> migration.get(WAITING.toMillis(), TimeUnit.MILLISECONDS));
                double cpuMs = ourThreadsMs() - beforeMs;
                Files.createFile(goOn);
                migration.get(20, TimeUnit.SECONDS);
                System.out.printf(
                        "figure: both services' threads in a migration that waits: %.0f ms of processor time in %d s%n",
                        cpuMs, WAITING.toSeconds());
                assertTrue(cpuMs <= WAITING.toMillis() * AT_MOST_WHILE_WAITING, "used " + cpuMs + " ms");
            }
        }
    }

    /** Processor time of the services' threads; what the compiler does for a young JVM is not theirs. */
    private static double ourThreadsMs() {
        ThreadMXBean threads = ManagementFactory.getThreadMXBean();
        double sumMs = 0;
        for (ThreadInfo thread : threads.getThreadInfo(threads.getAllThreadIds())) {
            if (thread != null && thread.getThreadName().startsWith("ppmr-")) {
                sumMs += threads.getThreadCpuTime(thread.getThreadId()) / 1e6;
            }
        }
        return sumMs;
    }

    private static int freePort() throws Exception {
        try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            return socket.getLocalPort();
        }
    }

    private static void pass(Duration time) throws Exception {
        long endNs = System.nanoTime() + time.toNanos();
        Conditions.get(() -> System.nanoTime() - endNs >= 0 ? true : null);
    }
}
