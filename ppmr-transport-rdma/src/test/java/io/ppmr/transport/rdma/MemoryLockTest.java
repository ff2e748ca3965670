package io.ppmr.transport.rdma;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.Test;

class MemoryLockTest {
    private static final List<String> STATUS = List.of("Name:\tjava", "VmLck:\t       0 kB", "VmPin:\t    8192 kB");

    @Test
    void shouldNameTheLimitAndTheNeededBytesWhenItIsTooLow() {
        String said = MemoryLock.explain("the pool", 8_388_608, "Cannot allocate memory", limits("8388608"), STATUS);
        assertEquals(
                "the pool (8388608 bytes) cannot be registered for RDMA: Cannot allocate memory: this process may lock"
                        + " 8388608 bytes of memory and needs 16777216 (RLIMIT_MEMLOCK: set LimitMEMLOCK=infinity in"
                        + " its unit, or ulimit -l unlimited)",
                said);
    }

    @Test
    void shouldNotMentionTheLimitWhenItIsHighEnough() {
        for (String soft : List.of("unlimited", "16777216")) {
            String said = MemoryLock.explain("the pool", 8_388_608, "Bad address", limits(soft), STATUS);
            assertTrue(said.endsWith("cannot be registered for RDMA: Bad address"), said);
        }
    }

    @Test
    void shouldReadItsOwnProcess() {
        String said = MemoryLock.explain("the pool", 1, "why", List.of(), List.of());
        assertFalse(said.contains("RLIMIT_MEMLOCK"), said);
        assertTrue(MemoryLock.explain("the pool", Long.MAX_VALUE / 2, "why").contains("the pool"), "reads proc(5)");
    }

    private static List<String> limits(String soft) {
        return List.of(
                "Limit                     Soft Limit           Hard Limit           Units     ",
                "Max locked memory         " + soft + "              unlimited            bytes     ");
    }
}
