package io.ppmr.bufferpool;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class PoolGeometryTest {
    private static final int KIB = 1024;

    @ParameterizedTest
    @ValueSource(ints = {0, -1, 8 * KIB, 100_000, 8 * KIB * KIB, Integer.MIN_VALUE})
    void shouldRefuseAChunkThatIsNotAPowerOfTwoInItsLimits(int chunkBytes) {
        assertThrows(IllegalArgumentException.class, () -> new PoolGeometry(chunkBytes, 8));
    }

    @ParameterizedTest
    @CsvSource({"131072, 3", "131072, 0", "131072, -4", "4194304, 512", "131072, 16384"})
    void shouldRefuseAPoolThatIsTooSmallOrTooLarge(int chunkBytes, int chunks) {
        assertThrows(IllegalArgumentException.class, () -> new PoolGeometry(chunkBytes, chunks));
    }

    @Test
    void shouldRefuseAPoolThatIsNotAMultipleOfItsChunk() {
        IllegalArgumentException refused =
                assertThrows(IllegalArgumentException.class, () -> PoolGeometry.of(1_000_000, 128 * KIB));
        assertTrue(refused.getMessage().contains("multiple of the chunk"), refused.getMessage());
        assertThrows(IllegalArgumentException.class, () -> PoolGeometry.of(1_000_000, 0));
    }

    @ParameterizedTest
    @CsvSource({
        "65536, 16384", // four chunks at least
        "524288, 131072",
        "1048576, 131072",
        "8257536, 131072",
        "8388608, 262144",
        "16777216, 262144",
        "33554432, 262144",
        "1073741824, 262144",
        "8519680, 131072", // 8 MiB and 128 KiB: not a multiple of 256 KiB
        "8404992, 16384"
    })
    void shouldChooseAChunkBySizeOfPool(long poolBytes, int chunkBytes) {
        assertEquals(PoolGeometry.of(poolBytes, chunkBytes), PoolGeometry.choose(poolBytes));
    }

    @Test
    void shouldRefuseAPoolWithoutAPossibleChunkSize() {
        assertThrows(IllegalArgumentException.class, () -> PoolGeometry.choose(1_000_000));
        assertThrows(IllegalArgumentException.class, () -> PoolGeometry.choose(48 * KIB));
        assertThrows(IllegalArgumentException.class, () -> PoolGeometry.choose(1L << 31));
    }

    @Test
    void shouldPlaceOffsetsInWindows() {
        PoolGeometry geometry = PoolGeometry.of(8 * 16 * KIB, 16 * KIB);
        assertEquals(8, geometry.chunkCount());
        assertEquals(0, geometry.windowOf(16 * KIB - 1));
        assertEquals(1, geometry.windowOf(16 * KIB));
        assertEquals(0, geometry.offsetInWindow(16 * KIB));
        assertEquals(16 * KIB - 1, geometry.offsetInWindow(16 * KIB - 1));
        long far = 1L << 45;
        assertEquals(far / (16 * KIB), geometry.windowOf(far + 5));
        assertEquals(5, geometry.offsetInWindow(far + 5));
        assertEquals(10 * 16 * KIB, geometry.plus(2).poolBytes());
    }
}
