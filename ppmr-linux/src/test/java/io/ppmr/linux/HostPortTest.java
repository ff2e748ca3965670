package io.ppmr.linux;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class HostPortTest {
    @ParameterizedTest
    @CsvSource({
        "node-07:7411, node-07, 7411",
        "192.0.2.7:0, 192.0.2.7, 0",
        "[2001:db8::7]:65535, 2001:db8::7, 65535",
        "[node-07]:1, node-07, 1"
    })
    void shouldReadAHostWithItsPort(String text, String host, int port) {
        assertEquals(Optional.of(new HostPort(host, port)), HostPort.parse(text));
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "",
                ":",
                "node",
                "node:",
                ":7411",
                "node:65536",
                "node:-1",
                "node:+1",
                "node:123456",
                "node:7411 ",
                "2001:db8::7:7411",
                "[]:7411",
                "[2001:db8::7:7411",
                "2001:db8::7]:7411",
                "[[::1]]:7411",
                "node:٣"
            })
    void shouldRefuseAnotherForm(String text) {
        assertEquals(Optional.empty(), HostPort.parse(text));
    }

    @Test
    void shouldParseTheNamesOfProtocolAndJournal() {
        HostPort node = new HostPort("2001:db8:0:0:0:0:0:7", 7411);
        assertEquals(node, HostPort.ofParticipant(HostPort.participant(node.unresolved())));
    }
}
