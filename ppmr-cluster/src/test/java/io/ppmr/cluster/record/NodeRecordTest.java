package io.ppmr.cluster.record;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;

/** The record of a node in the ensemble. */
class NodeRecordTest {
    private static final NodeRecord RECORD =
            new NodeRecord("b", "10.0.0.1:1", "", List.of("target"), NodeStatus.SUSPECT, 5, false, 0, List.of());

    /** A controller of the release before refuses a record with fields that it does not know. */
    @Test
    void shouldHaveNoFieldOfFencesWhenTheNodeWasNotFenced() {
        String text = new String(RECORD.encode(), StandardCharsets.UTF_8);
        assertFalse(text.contains("untilMs") || text.contains("fencesMs"), text);
        assertEquals(Optional.of(RECORD), NodeRecord.decode(RECORD.encode()));
    }

    @Test
    void shouldKeepTheFencesOfAnHour() {
        NodeRecord fenced = RECORD.fencing(1000, 2000).fencing(3_000_000, 1).fencing(3_700_000, 1);
        assertEquals(List.of(3_000_000L, 3_700_000L), fenced.fencesMs());
        assertEquals(Optional.of(fenced), NodeRecord.decode(fenced.encode()));
    }
}
