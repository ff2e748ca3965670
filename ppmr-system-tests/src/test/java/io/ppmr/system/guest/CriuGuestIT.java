package io.ppmr.system.guest;

import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.Timeout;

/**
 * Runs tests of CRIU in the guest. Its root has every capability, and its kernel marks written pages (soft-dirty) and
 * has no asynchronous write protection.
 */
@Tag("guest")
@Tag("soak")
class CriuGuestIT {
    @TestFactory
    @Timeout(
            value = TestsInGuest.LIMIT_S + 60,
            unit = TimeUnit.SECONDS,
            threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
    Stream<DynamicTest> shouldPassInTheGuest() throws Exception {
        return TestsInGuest.run(List.of("CriuAsUserInGuest"), List.of("--no-rdma"));
    }

    @TestFactory
    @Timeout(
            value = TestsInGuest.LIMIT_S + 60,
            unit = TimeUnit.SECONDS,
            threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
    Stream<DynamicTest> shouldCopyTheMemoryOfARunningJobByMarksOfWrittenPages() throws Exception {
        return TestsInGuest.run(
                List.of("io.ppmr.system.PreCopyIT#shouldLoseNoWriteWhenMemoryIsCopiedWhileTheJobComputes(int)"),
                List.of("--no-rdma"));
    }
}
