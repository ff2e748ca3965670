package io.ppmr.protocol.control;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Optional;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class CheckpointIntervalTest {
    @ParameterizedTest
    @CsvSource({"90s, 90", "10m, 600", "2h, 7200", "1d, 86400", "100d, 8640000"})
    void shouldBeReadWhenItIsATime(String text, long seconds) {
        CheckpointInterval interval = CheckpointInterval.parse(text).orElseThrow();
        assertEquals(seconds, interval.seconds());
        assertTrue(interval.isRegular());
        assertEquals(Optional.of(interval), CheckpointInterval.parse(interval.text()));
    }

    @Test
    void shouldBeReadAgainWhenItHasNoTime() {
        assertEquals(Optional.of(CheckpointInterval.AUTO), CheckpointInterval.parse(CheckpointInterval.AUTO.text()));
        assertEquals(Optional.of(CheckpointInterval.NONE), CheckpointInterval.parse(CheckpointInterval.NONE.text()));
        assertTrue(CheckpointInterval.AUTO.isRegular());
        assertFalse(CheckpointInterval.NONE.isRegular());
    }

    @ParameterizedTest
    @ValueSource(strings = {"0s", "-1m", "10", "m", "101d", "999999d", "1.5h", "10 m", "AUTO", "1w", "٣s"})
    void shouldBeUnreadableWhenItHasAnotherForm(String text) {
        assertEquals(Optional.empty(), CheckpointInterval.parse(text));
    }

    @Property
    void shouldNeverThrowWhateverTheTextIs(@ForAll String text) {
        CheckpointInterval.parse(text).ifPresent(read -> assertTrue(read.seconds() >= 0));
    }
}
