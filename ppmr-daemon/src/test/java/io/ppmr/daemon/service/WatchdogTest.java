package io.ppmr.daemon.service;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.daemon.log.DatagramListener;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class WatchdogTest {
    private static final String ALIVE = "WATCHDOG=1";

    private final List<String> said = new CopyOnWriteArrayList<>();
    private final AtomicReference<Optional<String>> complaint = new AtomicReference<>(Optional.empty());
    private final AtomicReference<Optional<String>> doing = new AtomicReference<>(Optional.empty());

    private Watchdog begin(Duration watchdog) {
        return new Watchdog(new Supervisor(Optional.of(said::add), Optional.ofNullable(watchdog)));
    }

    private static void await(BooleanSupplier condition) {
        long deadlineNs = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
        while (!condition.getAsBoolean()) {
            assertTrue(System.nanoTime() - deadlineNs < 0, "not within 20 s");
            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(5));
        }
    }

    private long count(String message) {
        return said.stream().filter(message::equals).count();
    }

    @Test
    void shouldAskForTimeUntilItIsReady() {
        try (Watchdog signs = begin(null)) {
            await(() -> said.contains("EXTEND_TIMEOUT_USEC=30000000"));
            assertEquals("STATUS=mounting and warming up", said.get(0));
            assertFalse(said.stream().anyMatch(message -> message.startsWith("READY")), said.toString());
            signs.ready(limit -> complaint.get(), doing::get);
            assertEquals("READY=1\nSTATUS=idle", said.get(said.size() - 1));
        }
    }

    @Test
    void shouldGiveSignsOfLifeOnlyWhileTheServiceDoesItsWork() {
        try (Watchdog signs = begin(Duration.ofMillis(200))) {
            signs.ready(limit -> complaint.get(), doing::get);
            await(() -> count(ALIVE) >= 3);
            complaint.set(Optional.of("its mount does not answer"));
            // One keep-alive that was under way may still arrive. After that the service hangs for five watchdogs.
            rest(200);
            long before = count(ALIVE);
            rest(1000);
            assertEquals(before, count(ALIVE), said.toString());
            complaint.set(Optional.empty());
            await(() -> count(ALIVE) > before);
        }
    }

    private static void rest(int ms) {
        long endNs = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(ms);
        await(() -> System.nanoTime() - endNs >= 0);
    }

    @Test
    void shouldTellWhatItDoesAsSoonAsThatChanges() {
        try (Watchdog signs = begin(null)) {
            signs.ready(limit -> complaint.get(), doing::get);
            doing.set(Optional.of("migration m\nis under way"));
            signs.changed();
            await(() -> said.contains("STATUS=migration m\\nis under way"));
            doing.set(Optional.empty());
            signs.ended("job j committed");
            await(() -> said.contains("STATUS=idle; last: job j committed"));
            signs.stopping();
            assertTrue(said.contains("STOPPING=1\nSTATUS=ending"), said.toString());
            assertFalse(said.contains(ALIVE), "without a watchdog none is fed");
        }
    }

    @Test
    void shouldSayNothingWhenNobodyListens() throws Exception {
        Supervisor unattended = Supervisor.of(Map.of("WATCHDOG_USEC", "1000000"));
        assertFalse(unattended.listens());
        assertEquals(Optional.empty(), unattended.watchdog());
        unattended.ready("idle");
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void shouldTellSystemdItselfOnePartAMessageWhenItListens(boolean isAbstract, @TempDir Path directory)
            throws Exception {
        String address = (isAbstract ? "@" : "") + directory.resolve("notify");
        String ours = Long.toString(ProcessHandle.current().pid());
        try (DatagramListener systemd = new DatagramListener(address)) {
            Supervisor supervisor = Supervisor.of(
                    Map.of("PPMR_NOTIFY_SOCKET", address, "WATCHDOG_USEC", "60000000", "WATCHDOG_PID", ours));
            assertEquals(Optional.of(Duration.ofSeconds(60)), supervisor.watchdog());
            supervisor.ready("idle,\nand well");
            supervisor.alive();
            assertEquals("READY=1\nSTATUS=idle,\\nand well", systemd.nextText());
            assertEquals("WATCHDOG=1", systemd.nextText());
        }
    }

    @Test
    void shouldFeedNoWatchdogThatIsMeantForAnother(@TempDir Path directory) throws Exception {
        String address = directory.resolve("notify").toString();
        try (DatagramListener systemd = new DatagramListener(address)) {
            Map<String, String> another =
                    Map.of("PPMR_NOTIFY_SOCKET", address, "WATCHDOG_USEC", "60000000", "WATCHDOG_PID", "1");
            assertEquals(Optional.empty(), Supervisor.of(another).watchdog());
        }
    }

    @Test
    void shouldNameTheSocketWhenNobodyIsThere(@TempDir Path directory) {
        String address = directory.resolve("none").toString();
        String message = assertThrows(IOException.class, () -> Supervisor.of(Map.of("PPMR_NOTIFY_SOCKET", address)))
                .getMessage();
        assertEquals("cannot reach " + address + ": No such file or directory (errno 2)", message);
    }
}
