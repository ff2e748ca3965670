package io.ppmr.bench;

import io.ppmr.transport.rdma.RdmaTransport;
import java.io.IOException;
import java.net.DatagramSocket;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * RDMA between two devices of this machine, or from one to itself. The target's is chosen; the source's is where the
 * route to it begins, as for a service.
 */
final class RdmaCarrier implements Carrier {
    /** Any: nothing is sent there. */
    private static final int SOME_PORT = 1;

    private final End source;
    private final End target;

    /**
     * One side.
     *
     * @param address of the device's network interface
     */
    record End(String device, InetAddress address) {
        String host() {
            return address.getHostAddress();
        }

        @Override
        public String toString() {
            return device + " at " + host();
        }
    }

    private RdmaCarrier(End source, End target) {
        this.source = source;
        this.target = target;
    }

    /** Finds both ends; {@code targetAddress} may be empty, then it is that of the last device that is up. */
    static RdmaCarrier find(String targetAddress) throws BenchFailure, IOException {
        String unusable = RdmaTransport.load().unusable();
        if (unusable != null) {
            throw new BenchFailure("--transport rdma: " + unusable + "; without a card, build here by ./ppmr bench "
                    + "--help and measure in the emulated machine, which has two soft-RoCE devices: "
                    + "./ppmr guest -- ./ppmr bench transfer --transport rdma --bytes 1m");
        }
        if (!Programs.present(IbReadBw.PROGRAM)) {
            throw new BenchFailure("--transport rdma: " + IbReadBw.PROGRAM
                    + ", which gives the limit, is not installed: apt-get install perftest");
        }
        List<RdmaDevice> devices = RdmaDevice.all(RdmaDevice.DEVICES);
        End target = target(devices, targetAddress);
        InetAddress from = routeTo(target.address());
        End source = at(devices, from);
        if (source == null) {
            throw new BenchFailure("--transport rdma: the way to " + target + " begins at " + from.getHostAddress()
                    + ", where no RDMA device is (" + said(devices) + "): change the route (ip route get "
                    + target.host() + "), or name another one by --target-address");
        }
        return new RdmaCarrier(source, target);
    }

    /** The target's end: where it was wished, or the last device that is up. */
    static End target(List<RdmaDevice> devices, String wished) throws BenchFailure {
        End found = null;
        for (RdmaDevice device : devices) {
            for (InetAddress address : device.usable() ? device.addresses() : List.<InetAddress>of()) {
                boolean first = address.equals(device.addresses().get(0));
                if (wished.isEmpty() ? first : address.getHostAddress().equals(wished)) {
                    found = new End(device.name(), address);
                }
            }
        }
        if (found == null) {
            throw new BenchFailure(
                    wished.isEmpty()
                            ? "--transport rdma: no RDMA device of this machine has both a port that is up and an IPv4 "
                                    + "address (" + said(devices) + "): ip link set IFACE up, ip addr add ADDRESS "
                                    + "dev IFACE"
                            : "--target-address " + wished + ": no RDMA device of this machine that is up has it ("
                                    + said(devices) + "): give one of theirs");
        }
        return found;
    }

    private static End at(List<RdmaDevice> devices, InetAddress address) {
        for (RdmaDevice device : devices) {
            if (device.up() && device.addresses().contains(address)) {
                return new End(device.name(), address);
            }
        }
        return null;
    }

    private static String said(List<RdmaDevice> devices) {
        return String.join("; ", devices.stream().map(RdmaDevice::said).toList());
    }

    private static InetAddress routeTo(InetAddress target) throws IOException {
        try (DatagramSocket socket = new DatagramSocket()) {
            socket.connect(new InetSocketAddress(target, SOME_PORT));
            return socket.getLocalAddress();
        }
    }

    @Override
    public String device() {
        return "RDMA from " + source + " to " + target;
    }

    @Override
    public Map<String, Object> settings(StageOptions options) {
        Map<String, Object> settings = new LinkedHashMap<>();
        settings.put("sourceDevice", source.device());
        settings.put("sourceAddress", source.host());
        settings.put("targetDevice", target.device());
        settings.put("targetAddress", target.host());
        settings.put("limitMessagesUnderWay", IbReadBw.UNDER_WAY);
        return settings;
    }

    @Override
    public List<String> targetWords() {
        return List.of(StageOptions.RDMA, target.host());
    }

    @Override
    public String limitName() {
        return IbReadBw.PROGRAM;
    }

    @Override
    public double limitMibPerSecond(StageOptions options) throws BenchFailure, IOException, InterruptedException {
        return new IbReadBw(source, target).mibPerSecond(options.chunkBytes, options.allChunks());
    }
}
