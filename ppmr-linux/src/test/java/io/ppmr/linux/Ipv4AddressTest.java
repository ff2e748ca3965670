package io.ppmr.linux;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class Ipv4AddressTest {
    @ParameterizedTest
    @ValueSource(strings = {"0.0.0.0", "10.20.0.9", "192.0.2.255", "255.255.255.255"})
    void shouldFormatTheTextThatWasParsed(String text) {
        assertEquals(text, Ipv4Address.parse(text).orElseThrow().toString());
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "10.20.0", "10.20.0.256", "010.20.0.1", "10.20.0.1/24", "10.20.0.1 ", "node", "::1"})
    void shouldRefuseAnotherForm(String text) {
        assertTrue(Ipv4Address.parse(text).isEmpty());
    }

    @Test
    void shouldDistinguishNetworksAndHosts() {
        Ipv4Address one = Ipv4Address.parse("10.20.1.255").orElseThrow();
        assertTrue(one.sharesNetwork(Ipv4Address.parse("10.20.0.1").orElseThrow(), 23));
        assertFalse(one.sharesNetwork(Ipv4Address.parse("10.20.0.1").orElseThrow(), 24));
        assertFalse(one.isHost(24));
        assertTrue(one.isHost(22));
        assertEquals("10.20.2.0", one.next().toString());
        assertFalse(one.next().isHost(24));
        assertEquals("0a1401ff", one.bytes("%02x", ""));
    }
}
