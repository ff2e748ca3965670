package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.pods.PodStatus;
import io.ppmr.testbed.NodeSystemd;
import io.ppmr.testbed.Testbed;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Pods that are moved by services with the limits of ppmr's units, between two nodes that have a systemd each. */
@Tag("soak")
@Timeout(value = 300, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class PodUnitIT {
    private static final String TEMPLATE = "tmp = \"8m\"\nshm = \"8m\"";

    @ParameterizedTest
    @EnumSource
    void shouldGoOnWithItsConnectionWhenUnitsLimitTheServices(PodPair.Memory memory) throws Exception {
        MovingNode.assumePossible();
        Assumptions.assumeTrue(NodeSystemd.isPossible(), "needs systemd (package systemd; it need not run)");
        try (Testbed testbed = Testbed.create("pod-units")) {
            MovingNode a = new MovingNode(testbed, 1, TEMPLATE, true);
            MovingNode b = new MovingNode(testbed, 2, TEMPLATE, true);
            MovingNode.connect(a, b);
            a.start();
            b.start();
            PodPair pair = PodPair.start(a, b, memory);
            PpmrCommand moved = a.move("1/client", b);
            assertEquals(0, moved.exitCode(), moved.said());
            assertTrue(memory == PodPair.Memory.SMALL || moved.said().contains("pages streamed: "), moved.said());
            PodStatus there = b.list("target").stream()
                    .filter(pod -> pod.name().equals("1/client"))
                    .findFirst()
                    .orElseThrow();
            PodPair.requireMoreRounds(b, there);
            assertFalse(b.said(pair.server()).contains("end"), b.said(pair.server()));
            assertEquals(List.of(), a.list("source"));
        }
    }
}
