package io.ppmr.system.guest;

import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.Timeout;

/** Runs the tests of CRIU as the job's user in the guest, whose root has every capability. */
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
}
