package io.ppmr.bench;

import java.io.IOException;
import java.net.Inet4Address;
import java.net.InetAddress;
import java.net.NetworkInterface;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;

/**
 * An RDMA device of this machine, as the kernel shows it in {@code /sys/class/infiniband}.
 *
 * @param up whether one of its ports is active
 * @param addresses the IPv4 addresses of its network interfaces
 */
record RdmaDevice(String name, boolean up, List<InetAddress> addresses) {
    static final Path DEVICES = Path.of("/sys/class/infiniband");

    /** Whether a connection can begin or end there. */
    boolean usable() {
        return up && !addresses.isEmpty();
    }

    /** For messages. */
    String said() {
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

    /** All of them, by name. */
    static List<RdmaDevice> all(Path devices) throws IOException {
        List<RdmaDevice> all = new ArrayList<>();
        for (Path device : entries(devices)) {
            boolean up = false;
            // RoCE names the interface beside each entry of a port's table; IPoIB's belong to the same piece of
            // hardware.
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

    /** The first line; of an entry that is not in use, which cannot be read, none. */
    private static String line(Path file) {
        try {
            return Files.readString(file).strip();
        } catch (IOException e) {
            return "";
        }
    }
}
