package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.checkpoint.Fence;
import io.ppmr.checkpoint.RightsBounds;
import io.ppmr.checkpoint.files.CarryPolicy;
import io.ppmr.linux.BootClock;
import io.ppmr.migration.RankSurroundings;
import io.ppmr.migration.node.NodeProbe;
import io.ppmr.migration.node.NodeSettings;
import io.ppmr.migration.target.TargetRules;
import io.ppmr.migration.target.TargetService;
import io.ppmr.migration.target.TargetSettings;
import io.ppmr.migration.target.TargetSettings.RestoreTools;
import io.ppmr.target.session.TransferSettings;
import io.ppmr.testbed.Conditions;
import io.ppmr.transaction.journal.MappedJournal;
import io.ppmr.transaction.journal.TransactionRecord;
import io.ppmr.transport.TransportChoice;
import io.ppmr.transport.auth.PreSharedKey;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * A target that waits, prepared, for its lost source, while its machine is suspended. The time in which it may fence
 * the source continues in that period, as it does for the source. The clock of the test shows that.
 */
@Timeout(value = 120, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
@Tag("soak")
class SuspendedMachineIT {
    private static final PoolGeometry POOL = PoolGeometry.of(1 << 20, 64 << 10);
    private static final Duration DELAY = Duration.ofSeconds(8);
    private static final Duration DEADLINE = Duration.ofSeconds(30);
    private static final long SUSPENDED_NS = TimeUnit.HOURS.toNanos(1);

    @TempDir
    private Path directory;

    private final AtomicLong suspendedNs = new AtomicLong();

    private TargetService target(Path fenced) throws Exception {
        Path journal = directory.resolve("journal");
        try (MappedJournal before = MappedJournal.in(journal)) {
            before.appendSynced(new TransactionRecord.PreparedHere(
                    "00000000-0000-4000-8000-000000000000",
                    1,
                    List.of("127.0.0.1:7"),
                    "127.0.0.1:7",
                    "127.0.0.1",
                    List.of(),
                    BootClock.nowNs()));
        }
        NodeProbe probe = new NodeProbe(Path.of("/"), POOL.poolBytes(), POOL.chunkBytes(), List.of());
        return new TargetService(
                new TargetSettings(
                        new InetSocketAddress(InetAddress.getLoopbackAddress(), 0),
                        new NodeSettings(
                                Files.createDirectory(directory.resolve("mount")),
                                Files.createDirectory(directory.resolve("work")),
                                Duration.ofSeconds(5)),
                        journal,
                        POOL,
                        new TransferSettings(Path.of("/dev/shm"), 0, 16 << 20, Duration.ofSeconds(60)),
                        new PreSharedKey("a key that only this test knows, 32+".getBytes(StandardCharsets.US_ASCII)),
                        new RestoreTools(List.of()),
                        new TargetRules(Duration.ofMinutes(5), false, true, 1, List.of()),
                        Optional.of(new Fence(List.of("touch", fenced.toString()), DELAY, DEADLINE)),
                        TargetSettings.Commands.NONE,
                        CarryPolicy.NONE,
                        RightsBounds.DEFAULT_FILES),
                TransportChoice.tcp(),
                probe::facts,
                new SimpleMeterRegistry(),
                () -> BootClock.nowNs() + suspendedNs.get(),
                RankSurroundings.NONE);
    }

    @Test
    void shouldFenceTheSourceInItsWindowWhenTheMachineRuns() throws Exception {
        Path fenced = directory.resolve("fenced");
        try (TargetService target = target(fenced)) {
            target.start();
            Conditions.until("the source is fenced", () -> Files.exists(fenced));
            Conditions.until("the target has taken over", () -> target.open().isEmpty());
        }
    }

    @Test
    void shouldNotFenceTheSourceWhenTheMachineWasSuspendedThroughItsWindow() throws Exception {
        Path fenced = directory.resolve("fenced");
        try (TargetService target = target(fenced)) {
            target.start();
            Conditions.until("it is taken up", () -> !target.open().isEmpty());
            assertFalse(Files.exists(fenced));
            suspendedNs.set(SUSPENDED_NS);
            // So long that it would have been fenced by a clock that is stopped.
            long pastNs = System.nanoTime() + DELAY.plusSeconds(3).toNanos();
            Conditions.until(
                    "its window is past, or the source was fenced",
                    () -> System.nanoTime() - pastNs > 0 || Files.exists(fenced));
            assertFalse(Files.exists(fenced), "a source was fenced an hour after its window");
            assertTrue(
                    target.open().get(0).waitsFor().contains("resolve"),
                    target.open().toString());
        }
    }
}
