package io.ppmr.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.bench.Carrier.RdmaDevice;
import java.io.IOException;
import java.net.InetAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class CarrierTest {
    private static final String REPORT = """
             RDMA_Read BW Test
             #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
             131072     300              96.43              37.52              0.000300
            """;

    private final RdmaDevice first = new RdmaDevice("rxe0", true, List.of(address(1)));
    private final RdmaDevice second = new RdmaDevice("rxe1", true, List.of(address(2), address(3)));
    private final RdmaDevice down = new RdmaDevice("rxe2", false, List.of(address(4)));

    @TempDir
    private Path folder;

    private static InetAddress address(int last) {
        try {
            return InetAddress.getByAddress(new byte[] {10, 77, 0, (byte) last});
        } catch (java.net.UnknownHostException e) {
            throw new IllegalArgumentException(e);
        }
    }

    @Test
    void shouldTakeTheLastDeviceThatIsUpWhenNoAddressIsWished() throws Exception {
        List<RdmaDevice> all = List.of(first, second, down);
        assertEquals("rxe1 at 10.77.0.2", Carrier.target(all, "").toString());
        assertEquals("rxe0 at 10.77.0.1", Carrier.target(List.of(first), "").toString());
    }

    @Test
    void shouldTakeTheDeviceOfTheAddressThatIsWished() throws Exception {
        List<RdmaDevice> all = List.of(first, second, down);
        assertEquals("rxe0 at 10.77.0.1", Carrier.target(all, "10.77.0.1").toString());
        assertEquals("rxe1 at 10.77.0.3", Carrier.target(all, "10.77.0.3").toString());
    }

    @Test
    void shouldNameTheDevicesWhenNoneCanBeUsed() {
        IOException none = assertThrows(IOException.class, () -> Carrier.target(List.of(down), ""));
        assertTrue(none.getMessage().contains("rxe2 at 10.77.0.4, down"), none.getMessage());
        IOException wished = assertThrows(IOException.class, () -> Carrier.target(List.of(first), "10.77.0.4"));
        assertTrue(wished.getMessage().contains("rxe0 at 10.77.0.1"), wished.getMessage());
    }

    @Test
    void shouldReadDevicesAsTheKernelShowsThem() throws Exception {
        Path port = Files.createDirectories(folder.resolve("rxe0/ports/1/gid_attrs/ndevs"));
        Files.writeString(port.resolve("0"), "lo\n");
        Files.writeString(folder.resolve("rxe0/ports/1/state"), "4: ACTIVE\n");
        Files.createDirectories(folder.resolve("rxe1/ports/1"));
        Files.writeString(folder.resolve("rxe1/ports/1/state"), "1: DOWN\n");
        List<RdmaDevice> all = RdmaDevice.all(folder);
        assertEquals(List.of(InetAddress.getLoopbackAddress()), all.get(0).addresses());
        assertTrue(all.get(0).usable());
        assertEquals(new RdmaDevice("rxe1", false, List.of()), all.get(1));
    }

    @Test
    void shouldFindTheAverageInAReport() throws Exception {
        assertEquals(37.52, IbBandwidth.average(REPORT, 131072));
        assertThrows(IOException.class, () -> IbBandwidth.average("unable to connect", 131072));
    }
}
