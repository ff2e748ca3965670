package io.ppmr.migration.node;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.ProcessTable;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;

class MemoryShapeTest {
    private static final long MIB = 1 << 20;
    private static final long PAGES_A_MIB = 256;

    private static final long NODE_BYTES = 4096 * MIB;

    private static String why(MemoryShape shape, long residentMib) {
        return shape.whyImages(residentMib * MIB, NODE_BYTES).orElse("");
    }

    @Test
    void shouldPreferToStreamWhatIsMostlyPrivateAndInOnePiece() {
        MemoryShape shape = new MemoryShape(512 * MIB, 20 * MIB, 512 * PAGES_A_MIB, 300);
        assertEquals(Optional.empty(), shape.whyImages(600 * MIB, NODE_BYTES));
    }

    @Test
    void shouldPreferImagesWhenLittleCouldBeStreamed() {
        assertTrue(why(new MemoryShape(20 * MIB, 0, 20 * PAGES_A_MIB, 9), 30).contains("gains nothing"));
        assertTrue(why(new MemoryShape(200 * MIB, 0, 200 * PAGES_A_MIB, 9), 900).contains("200 of the job's 900 MiB"));
    }

    @Test
    void shouldPreferImagesWhenProcessesShareMuchOfTheNodesMemorySinceAFork() {
        assertTrue(why(new MemoryShape(800 * MIB, 400 * MIB, 800 * PAGES_A_MIB, 9), 400)
                .contains("share 400 MiB since a fork"));
        assertEquals("", why(new MemoryShape(400 * MIB, 200 * MIB, 400 * PAGES_A_MIB, 9), 200));
    }

    @Test
    void shouldPreferImagesWhenEveryOtherPageIsMissing() {
        assertTrue(why(new MemoryShape(200 * MIB, 0, 200 * PAGES_A_MIB, 200 * PAGES_A_MIB), 200)
                .contains("in small pieces"));
    }

    @Test
    void shouldFindThisProcessesOwnMemoryWhenItIsLookedAt() throws Exception {
        ProcessTable processes = new ProcessTable();
        var own = processes.of((int) ProcessHandle.current().pid());
        MemoryShape shape = MemoryShape.of(List.of(own), 1 << 20, new Preparation(() -> false));
        assertTrue(shape.streamableBytes() > 10 * MIB, shape.toString());
        assertTrue(shape.pages() > 0 && shape.runs() > 0 && shape.runs() <= shape.pages(), shape.toString());
        MemoryShape unlooked = MemoryShape.of(List.of(own), 0, new Preparation(() -> false));
        assertEquals(0, unlooked.pages());
        assertTrue(unlooked.streamableBytes() > 10 * MIB, unlooked.toString());
    }
}
