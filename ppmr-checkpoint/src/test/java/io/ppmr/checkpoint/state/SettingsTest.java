package io.ppmr.checkpoint.state;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class SettingsTest {
    @Test
    void shouldReadTheSettingsOfAThreadAsTheyWereWritten() {
        ThreadSettings settings = new ThreadSettings(117, "0-3,8", 0x6000, 77_777, "7");
        assertEquals("117 0-3,8 24576 77777 7", settings.words());
        assertEquals(settings, ThreadSettings.parse(settings.words()));
        ThreadSettings few = new ThreadSettings(118, "", 0, 1, "");
        assertEquals(few, ThreadSettings.parse(few.words()));
    }

    @Test
    void shouldReadTheOptionsOfASocketAsTheyWereWritten() {
        SocketSettings settings = new SocketSettings(117, 5, Map.of("6/18", "e8800000", "1/29", "01000000"));
        assertEquals("117 5 1/29=01000000 6/18=e8800000", settings.words());
        assertEquals(settings, SocketSettings.parse(settings.words()));
    }

    /** Headers of packets keep their lengths. */
    @Test
    void shouldReadAnOptionOfAnyLengthUpToItsLimit() {
        SocketSettings settings = new SocketSettings(117, 5, Map.of("41/59", "0001000000000000", "0/4", "01"));
        assertEquals("117 5 0/4=01 41/59=0001000000000000", settings.words());
        assertEquals(settings, SocketSettings.parse(settings.words()));
        String tooLong = "117 5 0/4=" + "01".repeat(41);
        assertThrows(IllegalArgumentException.class, () -> SocketSettings.parse(tooLong));
    }

    @Test
    void shouldReadOwnersSignalsAndLabelsAsTheyWereWritten() {
        ObjectOwner owner = new ObjectOwner(117, 5, -2, 20_001);
        assertEquals("117 5 4294967294 20001", owner.words());
        assertEquals(owner, ObjectOwner.parse(owner.words()));
        WaitingSignals signals = new WaitingSignals(-1L, 1L << 11, 0x7fff_ffff_e000L);
        assertEquals(signals, WaitingSignals.parse(signals.word()));
        SecurityLabel label = new SecurityLabel(117, "solver (enforce)");
        assertEquals(label, SecurityLabel.parse(label.words()));
        assertThrows(IllegalArgumentException.class, () -> SecurityLabel.parse("117"));
        assertThrows(IllegalArgumentException.class, () -> ObjectOwner.parse("117 5 0"));
        assertThrows(IllegalArgumentException.class, () -> WaitingSignals.parse("x"));
    }

    /** The words come from another node. Only moved options are set. */
    @ParameterizedTest
    @ValueSource(strings = {"117 5", "117 5 1/36=01000000", "117 5 1/29=01", "117 5 1/29", "117 x 1/29=01000000"})
    void shouldReadNoOptionThatIsNotMoved(String words) {
        assertThrows(IllegalArgumentException.class, () -> SocketSettings.parse(words));
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "117 0-3 0 0",
                "117 3-0 0 0 -",
                "117 0-99999999 0 0 -",
                "117 a 0 0 -",
                "117 0 0 0 ../x",
                "117 0 0 0 -1",
                "x 0 0 0 -"
            })
    void shouldReadNoSettingsThatAreNone(String words) {
        assertThrows(IllegalArgumentException.class, () -> ThreadSettings.parse(words));
    }
}
