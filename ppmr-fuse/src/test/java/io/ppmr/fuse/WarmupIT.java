package io.ppmr.fuse;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** The warm-up drives the view through a real mount, and ends in time when it cannot. */
@Timeout(60)
class WarmupIT {
    private static final long LARGE_BYTES = 8L << 20;

    @TempDir
    Path mountPoint;

    private static WarmupPlan plan(WarmupPlan.Direction direction, long timeoutNs) {
        return new WarmupPlan(direction, 4, 1000, LARGE_BYTES, 3, timeoutNs);
    }

    @Test
    void shouldMoveBytesBothWaysWhenViewTakesThem() throws Exception {
        NullView view = new NullView();
        try (FuseMount mount = FuseMount.mount(view, mountPoint, MountOptions.named("ppmr-test"))) {
            for (WarmupPlan.Direction direction : WarmupPlan.Direction.values()) {
                long before = view.bytes.sum();
                WarmupReport report = Warmup.run(mount.mountPoint(), plan(direction, TimeUnit.SECONDS.toNanos(30)));
                assertTrue(report.complete(), report.remark());
                assertEquals(view.bytes.sum() - before, report.bytes());
                assertTrue(report.bytes() >= 1000L * WarmupPlan.SMALL_BYTES + 2 * LARGE_BYTES);
                assertTrue(report.firstMiBPerS() > 0 && report.lastMiBPerS() > 0);
            }
        } finally {
            view.free();
        }
    }

    @Test
    void shouldEndInTimeWhenViewBlocks() throws Exception {
        InMemoryView view = new InMemoryView();
        try (FuseMount mount = FuseMount.mount(view, mountPoint, MountOptions.named("ppmr-test"))) {
            for (int client = 0; client < 4; client++) {
                String path = "/" + Warmup.readName(0, client);
                view.release(view.create(path, new OpenFlags(1), 0644, new Caller(0, 0, 1)));
                view.hold(path, InMemoryView.Held.READ);
            }
            WarmupReport report =
                    Warmup.run(mount.mountPoint(), plan(WarmupPlan.Direction.READ, TimeUnit.MILLISECONDS.toNanos(500)));
            assertFalse(report.complete());
            assertTrue(report.remark().contains("killed at its deadline"), report.remark());
            assertTrue(report.elapsedNs() < TimeUnit.SECONDS.toNanos(10));
        }
    }

    @Test
    void shouldSayWhyWhenDirectoryIsMissing() throws Exception {
        WarmupReport report =
                Warmup.run(mountPoint.resolve("none"), plan(WarmupPlan.Direction.WRITE, TimeUnit.SECONDS.toNanos(10)));
        assertFalse(report.complete());
        assertTrue(report.remark().contains("No such file or directory"), report.remark());
    }
}
