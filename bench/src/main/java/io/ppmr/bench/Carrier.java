package io.ppmr.bench;

import io.ppmr.transport.rdma.RdmaTransport;
import java.io.IOException;
import java.net.DatagramSocket;
import java.net.Inet4Address;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.NetworkInterface;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Callable;

/**
 * The network that chunks cross on from a benchmark's source to its target, and B: the most that it can carry.
 *
 * @param device for the result
 * @param settings for the result, beside the transport's name
 * @param targetWords the target's arguments: the transport and the address at which it listens
 * @param limitName the name of the limit whose figure is B
 * @param limit B, measured at each call, in MiB/s
 */
record Carrier(
        String device,
        Map<String, Object> settings,
        List<String> targetWords,
        String limitName,
        Callable<Double> limit) {

    /** TCP over the loopback device. */
    static Carrier tcp(StageOptions options) {
        return new Carrier(
                "TCP over loopback",
                Map.of("connections", options.connections),
                List.of(StageOptions.TCP, "127.0.0.1"),
                "sender and receiver in C with CRC32C at both ends",
                () -> Programs.limit(options, "net", options.connections, "--crc"));
    }

    /** Any address works, because nothing is sent there. */
    private static final int SOME_PORT = 1;

    /**
     * One side.
     *
     * @param address of the device's network interface
     */
    record CarrierEnd(String device, InetAddress address) {
        String host() {
            return address.getHostAddress();
        }

        @Override
        public String toString() {
            return device + " at " + host();
        }
    }

    /**
     * Uses RDMA between two devices of this machine, or from one device to itself. The target's device is an option.
     * Without an address among the options, it is the last device that is up. The source's device is at the start of
     * the route to it, as for a service.
     */
    static Carrier rdma(StageOptions options) throws IOException {
        String unusable = RdmaTransport.load(options.rdmaMode).unusable();
        if (unusable != null) {
            throw new IOException("--transport rdma: " + unusable + "; without a card, build here by ./ppmr bench "
                    + "--help and measure in the emulated machine, which has two soft-RoCE devices: "
                    + "./ppmr guest -- ./ppmr bench transfer --transport rdma --bytes 1m");
        }
        String program = IbBandwidth.program(options.rdmaMode);
        if (!Programs.present(program)) {
            throw new IOException("--transport rdma: " + program
                    + ", which gives the limit, is not installed: apt-get install perftest");
        }
        List<RdmaDevice> devices = RdmaDevice.all(RdmaDevice.DEVICES);
        CarrierEnd target = target(devices, options.targetAddress);
        InetAddress from = routeTo(target.address());
        CarrierEnd source = at(devices, from);
        if (source == null) {
            throw new IOException("--transport rdma: the way to " + target + " begins at " + from.getHostAddress()
                    + ", where no RDMA device is (" + description(devices) + "): change the route (ip route get "
                    + target.host() + "), or name another one by --target-address");
        }
        Map<String, Object> settings = new LinkedHashMap<>();
        settings.put("sourceDevice", source.device());
        settings.put("sourceAddress", source.host());
        settings.put("targetDevice", target.device());
        settings.put("targetAddress", target.host());
        settings.put("rdmaMode", options.rdmaMode.name().toLowerCase(Locale.ROOT));
        settings.put("limitMessagesUnderWay", IbBandwidth.UNDER_WAY);
        return new Carrier(
                "RDMA from " + source + " to " + target,
                settings,
                List.of(StageOptions.RDMA, target.host(), options.rdmaMode.name()),
                program,
                () -> new IbBandwidth(options.rdmaMode, source, target)
                        .mibPerSecond(options.chunkBytes, options.allChunks()));
    }

    /** Returns the target's end: the requested device, or the last device that is up. */
    static CarrierEnd target(List<RdmaDevice> devices, String wished) throws IOException {
        CarrierEnd found = null;
        for (RdmaDevice device : devices) {
            for (InetAddress address : device.usable() ? device.addresses() : List.<InetAddress>of()) {
                boolean first = address.equals(device.addresses().get(0));
                if (wished.isEmpty() ? first : address.getHostAddress().equals(wished)) {
                    found = new CarrierEnd(device.name(), address);
                }
            }
        }
        if (found == null) {
            throw new IOException(
                    wished.isEmpty()
                            ? "--transport rdma: no RDMA device of this machine has both a port that is up and an IPv4 "
                                    + "address (" + description(devices)
                                    + "): ip link set IFACE up, ip addr add ADDRESS "
                                    + "dev IFACE"
                            : "--target-address " + wished + ": no RDMA device of this machine that is up has it ("
                                    + description(devices) + "): give one of theirs");
        }
        return found;
    }

    private static CarrierEnd at(List<RdmaDevice> devices, InetAddress address) {
        for (RdmaDevice device : devices) {
            if (device.up() && device.addresses().contains(address)) {
                return new CarrierEnd(device.name(), address);
            }
        }
        return null;
    }

    private static String description(List<RdmaDevice> devices) {
        return String.join("; ", devices.stream().map(RdmaDevice::description).toList());
    }

    private static InetAddress routeTo(InetAddress target) throws IOException {
        try (DatagramSocket socket = new DatagramSocket()) {
            socket.connect(new InetSocketAddress(target, SOME_PORT));
            return socket.getLocalAddress();
        }
    }

    /**
     * An RDMA device of this machine, as the kernel shows it in {@code /sys/class/infiniband}.
     *
     * @param up whether one of its ports is active
     * @param addresses the IPv4 addresses of its network interfaces
     */
    record RdmaDevice(String name, boolean up, List<InetAddress> addresses) {
        static final Path DEVICES = Path.of("/sys/class/infiniband");

        /** Returns true if a connection can begin or end there. */
        boolean usable() {
            return up && !addresses.isEmpty();
        }

        /** Describes it for messages. */
        String description() {
            String at = addresses.isEmpty()
                    ? "without an IPv4 address"
                    : "at "
                            + String.join(
                                    ", ",
                                    addresses.stream()
                                            .map(InetAddress::getHostAddress)
                                            .toList());
            return name + " " + at + (up ? "" : ", down");
        }

        /** Returns all devices, by name. */
        static List<RdmaDevice> all(Path devices) throws IOException {
            List<RdmaDevice> all = new ArrayList<>();
            for (Path device : entries(devices)) {
                boolean up = false;
                // RoCE names the interface beside each entry of a port's table. The entries of IPoIB belong to the same
                // piece of hardware.
                Set<String> interfaces = new TreeSet<>();
                for (Path port : entries(device.resolve("ports"))) {
                    up |= line(port.resolve("state")).endsWith("ACTIVE");
                    for (Path entry : entries(port.resolve("gid_attrs/ndevs"))) {
                        interfaces.add(line(entry));
                    }
                }
                for (Path name : entries(device.resolve("device/net"))) {
                    interfaces.add(name.getFileName().toString());
                }
                all.add(new RdmaDevice(device.getFileName().toString(), up, addresses(interfaces)));
            }
            return all;
        }

        private static List<InetAddress> addresses(Set<String> interfaces) throws IOException {
            List<InetAddress> addresses = new ArrayList<>();
            for (String name : interfaces) {
                NetworkInterface device = name.isEmpty() ? null : NetworkInterface.getByName(name);
                if (device != null) {
                    device.inetAddresses()
                            .filter(address -> address instanceof Inet4Address)
                            .forEach(addresses::add);
                }
            }
            return addresses;
        }

        private static List<Path> entries(Path folder) throws IOException {
            List<Path> entries = new ArrayList<>();
            if (Files.isDirectory(folder)) {
                try (DirectoryStream<Path> all = Files.newDirectoryStream(folder)) {
                    all.forEach(entries::add);
                }
            }
            entries.sort(null);
            return entries;
        }

        /** Returns the first line. An unused entry cannot be read, and has none. */
        private static String line(Path file) {
            try {
                return Files.readString(file).strip();
            } catch (IOException e) {
                return "";
            }
        }
    }
}
