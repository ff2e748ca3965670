package io.ppmr.system.guest;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.Timeout;

/** Runs all tests that need RDMA in one boot of the guest. Without the native library they are skipped. */
@Tag("guest")
@Tag("soak")
class RdmaGuestIT {
    private static final List<String> CLASSES = List.of(
            "RdmaPullInGuest",
            "RdmaWriteInGuest",
            "RdmaFailuresInGuest",
            "RdmaPipelineInGuest",
            "RdmaStrangersInGuest",
            "RdmaMemoryLockInGuest",
            "RdmaMigrationInGuest",
            "RdmaRailsInGuest",
            "RdmaSpeedInGuest",
            "RdmaBenchInGuest");

    @TestFactory
    @Timeout(
            value = TestsInGuest.LIMIT_S + 60,
            unit = TimeUnit.SECONDS,
            threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
    Stream<DynamicTest> shouldPassInTheGuest() throws Exception {
        return Files.exists(Path.of(System.getProperty("ppmr.home"), "ppmr-transport-rdma/target/native/libdisni.so"))
                ? TestsInGuest.run(CLASSES, List.of())
                : TestsInGuest.skipped(
                        CLASSES, "this build has no libdisni.so (apt-get install libibverbs-dev librdmacm-dev)");
    }
}
