package io.ppmr.system;

import static io.ppmr.system.KillablePair.SOURCE;
import static io.ppmr.system.KillablePair.TARGET;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.daemon.config.KeyFile;
import io.ppmr.daemon.control.ControlClient;
import io.ppmr.linux.ProcStat;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Patience;
import io.ppmr.testbed.ProcessFigures;
import io.ppmr.testbed.ServiceProcess;
import io.ppmr.transaction.journal.TransactionRecord;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadInfo;
import java.lang.management.ThreadMXBean;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** An idle service uses no resources. */
@Timeout(value = 240, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
@Tag("soak")
class IdleIT {
    /** Quiet for that time, a service has done what its start left behind. */
    private static final Duration SETTLING = Duration.ofSeconds(4);

    private static final Duration SETTLED = Patience.of(Duration.ofSeconds(60));
    private static final Duration WATCHED = Duration.ofSeconds(10);
    private static final Duration WAITING = Duration.ofSeconds(6);
    /** After this time, a peer that does not answer is queried rarely. */
    private static final Duration GROWING = Duration.ofSeconds(40);

    private static final Duration WATCHED_OPEN = Duration.ofSeconds(20);
    private static final double WAKE_UPS_WHILE_OPEN = 4;
    private static final double AT_MOST_OF_A_CORE = 0.01;
    private static final double AT_MOST_WHILE_WAITING = 0.25;

    @TempDir
    private Path directory;

    @Test
    void shouldUseNoProcessorToSpeakOfWhenNothingMoves() throws Exception {
        Path key = directory.resolve("key");
        KeyFile.create(key);
        int port = Nodes.unusedAddress().getPort();
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
            awaitQuiet(target);
            awaitQuiet(source);
            ProcessFigures targetBefore = target.figures();
            ProcessFigures sourceBefore = source.figures();
            pass(WATCHED);
            assertIdle("target", targetBefore, target.figures());
            assertIdle("source", sourceBefore, source.figures());
        }
    }

    /**
     * Waits until the remaining work of its start is done. On a busy machine a cancelled warm-up is still being removed
     * after the service reported that it is ready. Its code is still being compiled, too.
     */
    private static void awaitQuiet(ServiceProcess service) throws Exception {
        Conditions.until(SETTLED, "the service has done what its start left behind", () -> {
            double before = service.figures().cpuSeconds();
            pass(SETTLING);
            return service.figures().cpuSeconds() - before <= SETTLING.toSeconds() * AT_MOST_OF_A_CORE;
        });
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
                migration.get(Patience.of(60), TimeUnit.SECONDS);
                System.out.printf(
                        "figure: both services' threads in a migration that waits: %.0f ms of processor time in %d s%n",
                        cpuMs, WAITING.toSeconds());
                assertTrue(cpuMs <= WAITING.toMillis() * AT_MOST_WHILE_WAITING, "used " + cpuMs + " ms");
            }
        }
    }

    /** It queries a peer that does not answer, at growing intervals. */
    @ParameterizedTest
    @ValueSource(strings = {SOURCE, TARGET})
    @Timeout(value = 300, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
    void shouldSleepWhenAnOpenMigrationWaitsForAPeerThatIsGone(String role) throws Exception {
        Path folder = Files.createDirectory(directory.resolve("pair"));
        try (KillablePair pair = new KillablePair(folder, "");
                LedgerJob job = pair.job()) {
            String id;
            if (role.equals(SOURCE)) {
                job.restarts(1, "read 1m", "eof", "touch " + job.mark("read"), "await " + job.mark("go"));
                id = pair.migrate();
                job.awaitMark("read");
                pair.awaitRecord(SOURCE, id, TransactionRecord.Sealed.class);
                pair.service(TARGET).kill();
            } else {
                id = pair.voted(job);
                pair.service(SOURCE).kill();
            }
            Conditions.until("its status says that ranks are held", () -> {
                try (ControlClient client = new ControlClient(pair.socket(role))) {
                    return client.status().open().stream().anyMatch(open -> open.waitsFor() != null);
                }
            });
            pass(GROWING);
            long pid = pair.service(role).process().pid();
            ProcessFigures before = ProcessFigures.of(pid);
            Map<String, Long> wokenBefore = wakeUpsOfThreads(pid);
            pass(WATCHED_OPEN);
            ProcessFigures after = ProcessFigures.of(pid);
            // A thread that ended in the meantime is not counted.
            long woken = wakeUpsOfThreads(pid).entrySet().stream()
                    .mapToLong(thread -> thread.getValue() - wokenBefore.getOrDefault(thread.getKey(), 0L))
                    .sum();
            double wakeUps = woken / (double) WATCHED_OPEN.toSeconds();
            System.out.printf(
                    "figure: %s with an open migration whose peer is gone: %.0f ms of processor time and %.1f wake-ups"
                            + " a second in %d s%n",
                    role, (after.cpuSeconds() - before.cpuSeconds()) * 1000, wakeUps, WATCHED_OPEN.toSeconds());
            assertTrue(wakeUps <= WAKE_UPS_WHILE_OPEN, wakeUps + " wake-ups a second");
        }
    }

    private static Map<String, Long> wakeUpsOfThreads(long pid) throws IOException {
        Map<String, Long> wakeUps = new HashMap<>();
        try (DirectoryStream<Path> threads = Files.newDirectoryStream(Path.of("/proc", Long.toString(pid), "task"))) {
            for (Path thread : threads) {
                ProcStat.field(thread.resolve("status"), "voluntary_ctxt_switches")
                        .ifPresent(count -> wakeUps.put(
                                thread.getFileName().toString(), Long.parseLong(count.replaceAll("\\D", ""))));
            }
        }
        return wakeUps;
    }

    /** Returns the processor time of the services' threads. It excludes the compiler's work for a young JVM. */
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

    private static void pass(Duration time) throws Exception {
        long endNs = System.nanoTime() + time.toNanos();
        Conditions.until(time.multipliedBy(2), "time passes", () -> System.nanoTime() - endNs >= 0);
    }
}
