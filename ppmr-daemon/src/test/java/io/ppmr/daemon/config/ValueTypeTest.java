package io.ppmr.daemon.config;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.daemon.config.file.ValueType;
import io.ppmr.daemon.config.file.ValueType.BadValueException;
import java.nio.file.Path;
import java.time.Duration;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class ValueTypeTest {
    private static final ValueType.Reading HERE = new ValueType.Reading(Path.of("/etc/ppmr"), true);

    @ParameterizedTest
    @CsvSource({"0,0", "1k,1024", "128k,131072", "8m,8388608", "1g,1073741824", "2t,2199023255552"})
    void shouldReadSizeWhenItHasItsUnit(String text, long bytes) throws BadValueException {
        assertEquals(bytes, ValueType.SIZE.parse(text, HERE));
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "8", "8mb", "8M", "-8m", "8.5m", "m", "8 m", "999999999999999t"})
    void shouldRefuseSizeWhenItIsNone(String text) {
        assertThrows(BadValueException.class, () -> ValueType.SIZE.parse(text, HERE));
    }

    @ParameterizedTest
    @CsvSource({"500ms,500", "30s,30000", "10m,600000", "1h,3600000"})
    void shouldReadTimeWhenItHasItsUnit(String text, long millis) throws BadValueException {
        assertEquals(Duration.ofMillis(millis), ValueType.TIME.parse(text, HERE));
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "30", "0s", "30sec", "1d", "-1s", "999999999999999h"})
    void shouldRefuseTimeWhenItIsNone(String text) {
        assertThrows(BadValueException.class, () -> ValueType.TIME.parse(text, HERE));
    }

    @Test
    void shouldSayThatTheUnitIsMissingWhenANumberStandsThere() {
        String message = assertThrows(BadValueException.class, () -> ValueType.TIME.parse(30L, HERE))
                .getMessage();
        assertTrue(message.startsWith("30 has no unit"), message);
    }

    @ParameterizedTest
    @CsvSource({"127.0.0.1:1,127.0.0.1,1", "[::1]:65535,0:0:0:0:0:0:0:1,65535"})
    void shouldReadAddressWhenItHasAPort(String text, String host, int port) throws BadValueException {
        assertEquals(host, ValueType.ADDRESS.parse(text, HERE).getAddress().getHostAddress());
        assertEquals(port, ValueType.ADDRESS.parse(text, HERE).getPort());
    }

    @ParameterizedTest
    @ValueSource(strings = {"127.0.0.1", ":7411", "127.0.0.1:65536", "127.0.0.1:x", "::1:7411"})
    void shouldRefuseAddressWhenItIsNone(String text) {
        assertThrows(BadValueException.class, () -> ValueType.ADDRESS.parse(text, HERE));
    }

    @Test
    void shouldStartAtTheFilesFolderWhenAPathIsRelative() throws BadValueException {
        assertEquals(Path.of("/etc/ppmr/key"), ValueType.PATH.parse("key", HERE));
        assertEquals(Path.of("/run/key"), ValueType.PATH.parse("/run/key", HERE));
    }
}
