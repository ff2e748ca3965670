package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.linux.Command;
import io.ppmr.linux.LibC;
import io.ppmr.pods.PodStatus;
import io.ppmr.testbed.Testbed;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/**
 * A pod on a kernel that cannot list tracked connections, as one without the module for that. {@code PodGuestsIT} runs
 * it in an emulated machine, from which that can be kept.
 */
@Timeout(value = 120, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class PodConntrackInGuest {
    /** Names the program that the kernel calls to load a module. */
    private static final Path LOADER = Path.of("/proc/sys/kernel/modprobe");

    @Test
    void shouldBeRefusedByNameBeforeThePauseWhenTheKernelListsNoTrackedConnections() throws Exception {
        String loader = Files.readString(LOADER);
        try (Testbed testbed = Testbed.create("conntrack")) {
            MovingNode a = new MovingNode(testbed, 1);
            MovingNode b = new MovingNode(testbed, 2);
            MovingNode.connect(a, b);
            a.start();
            b.start();
            PodStatus pod = a.runPodAt("asked", "10.20.0.14", "sh", "-c", "while sleep 0.1; do echo runs; done");
            a.await(pod, "runs");
            setLoader("/bin/false");
            // The module is missing if nothing loaded it.
            Command.of(List.of("rmmod", "nf_conntrack_netlink")).run(MovingNode.LIMIT);
            assertFalse(LibC.listsTrackedConnections());
            PpmrCommand refused = a.move("1/asked", b);
            assertNotEquals(0, refused.exitCode(), refused.said());
            assertTrue(refused.said().contains("nf_conntrack_netlink"), refused.said());
            String atRefusal = a.said(pod);
            a.await(pod, atRefusal + "runs");
            setLoader(loader);
            assertTrue(LibC.listsTrackedConnections());
            PpmrCommand moved = a.move("1/asked", b);
            assertTrue(moved.exitCode() == 0, moved.said());
        } finally {
            setLoader(loader);
        }
    }

    private static void setLoader(String program) throws IOException {
        Files.writeString(LOADER, program);
    }
}
