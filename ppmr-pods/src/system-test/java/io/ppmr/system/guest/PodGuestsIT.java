package io.ppmr.system.guest;

import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Patience;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * Moves pods in emulated machines, where root has every capability, the kernel is Debian's and cgroups are of version
 * 2. The tests between nodes of one machine also run outside. Other tests use two machines.
 */
@Tag("guest")
@Tag("soak")
class PodGuestsIT {
    private static final Duration LIMIT = Patience.of(Duration.ofSeconds(TestsInGuest.LIMIT_S));

    @TempDir
    private Path directory;

    @TestFactory
    @Timeout(
            value = TestsInGuest.LIMIT_S + 60,
            unit = TimeUnit.SECONDS,
            threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
    Stream<DynamicTest> shouldPassInTheGuest() throws Exception {
        return TestsInGuest.run(
                List.of("io.ppmr.system.PodIpv6IT", "io.ppmr.system.PodLimitsIT", "io.ppmr.system.PodConntrackInGuest"),
                List.of("--no-rdma"));
    }

    @TestFactory
    @Timeout(
            value = TestsInGuest.LIMIT_S + 60,
            unit = TimeUnit.SECONDS,
            threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
    Stream<DynamicTest> shouldPassBetweenTwoGuests() throws Exception {
        ExecutorService guests = Executors.newFixedThreadPool(2);
        try {
            CompletableFuture<Stream<DynamicTest>> older = boot(guests, "a", "b");
            Conditions.until(
                    LIMIT,
                    "the first machine is ready, or has ended",
                    () -> older.isDone() || Files.exists(directory.resolve("ready")));
            CompletableFuture<Stream<DynamicTest>> younger =
                    older.isDone() ? CompletableFuture.completedFuture(Stream.of()) : boot(guests, "b", "a");
            return Stream.concat(older.get(), younger.get());
        } finally {
            guests.shutdownNow();
        }
    }

    /** @param end of the cable between both that this machine has */
    private CompletableFuture<Stream<DynamicTest>> boot(ExecutorService guests, String end, String other) {
        CompletableFuture<Stream<DynamicTest>> tests = new CompletableFuture<>();
        guests.execute(() -> {
            try {
                tests.complete(TestsInGuest.run(
                        List.of("io.ppmr.system.PodBetweenGuests"),
                        List.of(
                                "--no-rdma",
                                "--memory",
                                "2048",
                                "--share",
                                directory.toString(),
                                "--cable",
                                directory.resolve(end) + ":" + directory.resolve(other))));
            } catch (Exception e) {
                tests.completeExceptionally(e);
            }
        });
        return tests;
    }
}
