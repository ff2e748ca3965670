package io.ppmr.transport.rdma;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;

import org.junit.jupiter.api.Test;

class WorkIdTest {

    @Test
    void shouldReturnKindAndEntryForAnyGeneration() {
        for (long generation : new long[] {0, 1, 1L << 39, Long.MAX_VALUE, -1}) {
            for (int entry : new int[] {0, 1, 255, 0xFFFF}) {
                long id = WorkId.of(WorkId.PULL, generation, entry);
                assertEquals(WorkId.PULL, WorkId.kind(id));
                assertEquals(entry, WorkId.entry(id));
                assertEquals(WorkId.PROOF, WorkId.kind(WorkId.of(WorkId.PROOF, generation, entry)));
            }
        }
    }

    @Test
    void shouldDifferWhenTheEntryIsUsedAgain() {
        assertNotEquals(WorkId.of(WorkId.PULL, 1, 7), WorkId.of(WorkId.PULL, 2, 7));
    }
}
