package io.ppmr.checkpoint;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;

/**
 * The node of every rank of a job after a migration, as input of its reconnect hook (paper 1, section III: phase 4).
 * Immutable.
 *
 * @param nodes the node of each rank, by its number
 */
public record RankMap(Map<Integer, String> nodes) {
    /** Maximum length of a variable. Linux accepts 128 KiB for one, with its name (MAX_ARG_STRLEN). */
    private static final int MAX_VARIABLE_BYTES = 120_000;

    public RankMap {
        nodes = Map.copyOf(nodes);
    }

    /** Parses the text of {@link #lines}. Any other line is refused. */
    public static RankMap of(List<String> lines) {
        Map<Integer, String> nodes = new TreeMap<>();
        for (String line : lines) {
            int space = line.indexOf(' ');
            if (space <= 0) {
                throw new IllegalArgumentException("'" + line + "' is invalid: it must be RANK NODE");
            }
            nodes.put(Integer.parseInt(line.substring(0, space)), line.substring(space + 1));
        }
        return new RankMap(nodes);
    }

    /** Returns a line "rank node" for each rank, in order. */
    public List<String> lines() {
        return new TreeMap<>(nodes)
                .entrySet().stream()
                        .map(place -> place.getKey() + " " + place.getValue())
                        .toList();
    }

    /**
     * Writes the map for a reconnect hook.
     *
     * @param workDirectory directory of the file; made if missing
     * @return the hook's environment. {@code PPMR_MAP} names a file of {@link #lines}. {@code PPMR_SHARED} lists
     *     the ranks that share a node, "node:rank,rank" each. It is left out if it is longer than the kernel accepts,
     *     because the file has the same facts.
     */
    public Map<String, String> write(Path workDirectory) throws IOException {
        WorkDirectories.passage(workDirectory);
        Path map = workDirectory.resolve("map");
        Files.write(map, lines());
        Files.setPosixFilePermissions(map, PosixFilePermissions.fromString("rw-r--r--"));
        String shared = shared();
        return shared.getBytes(StandardCharsets.UTF_8).length > MAX_VARIABLE_BYTES
                ? Map.of("PPMR_MAP", map.toString())
                : Map.of("PPMR_MAP", map.toString(), "PPMR_SHARED", shared);
    }

    private String shared() {
        Map<String, String> byNode = new TreeMap<>();
        new TreeMap<>(nodes).forEach((rank, node) -> byNode.merge(node, Integer.toString(rank), (a, b) -> a + "," + b));
        return byNode.entrySet().stream()
                .map(node -> node.getKey() + ":" + node.getValue())
                .collect(Collectors.joining(" "));
    }
}
