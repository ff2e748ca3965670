package io.ppmr.pods;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.ppmr.linux.Ipv4Address;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class Ipv6NetworkTest {
    @ParameterizedTest
    @CsvSource({
        "fd00:20::/64, fd00:20::a14:c",
        "FD00:20:0:0::/64, fd00:20::a14:c",
        "fd00:20:0:1:2:3::/96, fd00:20:0:1:2:3:a14:c",
        "2001:db8::/32, 2001:db8::a14:c"
    })
    void shouldNumberItsAddressesByIpv4AddressesWhenItIsGood(String network, String address) {
        assertEquals(
                address,
                Ipv6Network.parse(network)
                        .orElseThrow()
                        .addressOf(Ipv4Address.parse("10.20.0.12").orElseThrow()));
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "",
                "fd00:20::",
                "fd00:20::/97",
                "fd00:20::/8",
                "fd00:20::1/64",
                "fd00:20:0:0:1::/64",
                "ff02::/64",
                "fe80::/64",
                "::/64",
                "10.20.0.0/24",
                "fd00::20::/64",
                "localhost/64",
                "fd00:20::%eth0/64",
                "::ffff:10.20.0.0/96",
                "fd00:12345::/64",
                "fd00:20::/064"
            })
    void shouldBeNoneWhenItIsWrittenOtherwise(String text) {
        assertEquals(Optional.empty(), Ipv6Network.parse(text));
    }

    @Test
    void shouldBeWrittenAsItIsReadWhenItIsShown() {
        assertEquals(
                "fd00:20::/64",
                Ipv6Network.parse("fd00:0020::/64").orElseThrow().toString());
    }
}
