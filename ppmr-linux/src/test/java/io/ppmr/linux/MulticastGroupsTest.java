package io.ppmr.linux;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.ppmr.linux.MulticastGroups.Group;
import java.io.IOException;
import java.net.InetAddress;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;

class MulticastGroupsTest {
    /** Recorded on a little-endian machine. */
    @EnabledIfSystemProperty(named = "os.arch", matches = "amd64|aarch64")
    @Test
    void shouldReadTheGroupsOfEachInterface() throws IOException {
        List<Group> groups = new ArrayList<>();
        MulticastGroups.addIpv4("""
                Idx\tDevice    : Count Querier\tGroup    Users Timer\tReporter
                1\tlo        :     2      V3
                \t\t\t\t030201EF     1 0:00000000\t\t0
                \t\t\t\t010000E0     1 0:00000000\t\t0
                4\teth0      :     1      V3
                \t\t\t\tFB0000E0     1 0:00000000\t\t0
                """, groups);
        assertEquals(
                List.of(
                        new Group(InetAddress.getByName("239.1.2.3"), 1),
                        new Group(InetAddress.getByName("224.0.0.251"), 4)),
                groups);
    }

    @Test
    void shouldReadTheGroupsOfIpv6AndLeaveThoseOfInterfacesOut() throws IOException {
        List<Group> groups = new ArrayList<>();
        MulticastGroups.addIpv6("""
                1    lo              ff150000000000000000000000005007     1 00000004 0
                1    lo              ff020000000000000000000000000001     1 0000000C 0
                4    eth0            ff0200000000000000000001ff00a1b2     1 00000004 0
                """, groups);
        assertEquals(List.of(new Group(InetAddress.getByName("ff15::5007"), 1)), groups);
    }
}
