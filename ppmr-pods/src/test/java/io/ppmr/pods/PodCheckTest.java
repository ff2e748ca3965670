package io.ppmr.pods;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.protocol.control.Finding;
import java.util.Optional;
import org.junit.jupiter.api.Test;

/** Tests the doctor's findings about a pod's network. */
class PodCheckTest {
    @Test
    void shouldBeWellWhenABridgesAddressIsSet() {
        assertEquals(
                Finding.ok("pod-bridge", "br0 has a MAC address of its own, 02:51:00:00:00:01"),
                PodCheck.bridge("br0", "3\n02:51:00:00:00:01\n"));
    }

    @Test
    void shouldSayHowToSetItWhenABridgeTakesItFromItsPorts() {
        Finding found = PodCheck.bridge("br0", "0\n02:51:00:00:00:01\n");
        assertEquals(Finding.Level.WARN, found.level());
        assertEquals("ip link set dev br0 address 02:51:00:00:00:01", found.remedy());
    }

    @Test
    void shouldFailWhenTheInterfaceIsNoBridge() {
        assertEquals(Finding.Level.FAIL, PodCheck.bridge("eno1", "").level());
        assertEquals(
                Finding.Level.FAIL,
                PodCheck.bridge("br9", "sh: 1: cd: can't cd to /sys/class/net/br9\n")
                        .level());
    }

    private static Optional<Finding> keepalives(String timer, boolean isQuiet) {
        String shown = "0 0 10.20.0.12:35468 10.20.0.15:7000 " + timer + "\n"
                + "0 0 10.20.0.12:35470 10.20.0.15:7001 timer:(keepalive,119min,0)\n";
        return PodCheck.keepalives("1/ring", shown, isQuiet);
    }

    @Test
    void shouldWarnOfKeepalivesWhenTheyComeSoonAndNobodyIsQuiet() {
        for (String timer : new String[] {"1.5sec", "350ms", "1min30sec"}) {
            Finding found =
                    keepalives("timer:(keepalive," + timer + ",0)", false).orElseThrow();
            assertEquals(Finding.Level.WARN, found.level(), timer);
        }
        Finding quiet = keepalives("timer:(keepalive,1.5sec,0)", true).orElseThrow();
        assertEquals(Finding.Level.OK, quiet.level());
        assertTrue(quiet.text().contains("within 2 s"), quiet.text());
    }

    @Test
    void shouldSayNothingOfKeepalivesWhenThereAreNoneThatComeSoon() {
        assertEquals(Optional.empty(), keepalives("timer:(on,200ms,0)", false));
        assertEquals(Optional.empty(), keepalives("timer:(keepalive,59min,0)", false));
        assertEquals(Optional.empty(), keepalives("", false));
    }
}
