package io.ppmr.doctor;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/**
 * A port of an RDMA device as the kernel shows it in {@code /sys/class/infiniband}: whether it is up needs no library.
 *
 * @param name as {@code DEVICE/PORT}
 * @param state of the link as the kernel calls it, such as {@code ACTIVE}
 * @param hasGid whether it has an address, without which nobody can connect
 */
record RdmaPort(String name, String state, boolean hasGid) {
    private static final String NO_GID = "0000:0000:0000:0000:0000:0000:0000:0000";

    boolean isUp() {
        return state.equals("ACTIVE") && hasGid;
    }

    static List<RdmaPort> all(Path root) {
        List<RdmaPort> ports = new ArrayList<>();
        for (Path device : NodeProbe.entries(root.resolve("sys/class/infiniband"))) {
            for (Path port : NodeProbe.entries(device.resolve("ports"))) {
                String state = NodeProbe.lines(port.resolve("state")).stream()
                        .findFirst()
                        .orElse("unknown");
                boolean gid = NodeProbe.entries(port.resolve("gids")).stream().anyMatch(file -> firstLine(file)
                        .map(line -> !line.equals(NO_GID))
                        .orElse(false));
                ports.add(new RdmaPort(
                        device.getFileName() + "/" + port.getFileName(), state.replaceFirst("^\\d+:\\s*", ""), gid));
            }
        }
        return ports;
    }

    /** Entries of a GID table that are not in use cannot even be read. */
    private static java.util.Optional<String> firstLine(Path file) {
        try {
            return NodeProbe.lines(file).stream().findFirst();
        } catch (java.io.UncheckedIOException e) {
            return java.util.Optional.empty();
        }
    }
}
