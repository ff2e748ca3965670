package io.ppmr.daemon.config.file;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.tomlj.Toml;
import org.tomlj.TomlArray;
import org.tomlj.TomlTable;

/**
 * The values of a configuration file with defaults filled in and relative paths resolved, and where each value came
 * from. Filled while the file is read, by that thread; afterwards for any.
 */
public final class ResolvedValues {
    private final Map<String, Group> groups = new LinkedHashMap<>();

    private record Group(String heading, Map<String, Value> values) {}

    /**
     * One value.
     *
     * @param text as it would stand in the file; null where there is none
     * @param origin where it came from
     */
    private record Value(String text, String origin) {}

    /**
     * Notes a value; the last one noted for a key counts.
     *
     * @param path what distinguishes the section from all others of the file
     * @param heading as it stands in the file; empty for the top
     */
    public void add(String path, String heading, String key, Object value, String origin) {
        groups.computeIfAbsent(path, unused -> new Group(heading, new LinkedHashMap<>()))
                .values()
                .put(key, new Value(value == null ? null : text(value), origin));
    }

    void remove(String path, String key) {
        groups.get(path).values().remove(key);
    }

    /** The lines of a configuration file that means the same, each value followed by where it came from. */
    public List<String> lines() {
        List<String> lines = new ArrayList<>();
        for (Group group : groups.values()) {
            if (!group.heading().isEmpty()) {
                lines.add("");
                lines.add(group.heading());
            }
            int width = group.values().entrySet().stream()
                    .mapToInt(entry -> assignment(entry).length())
                    .max()
                    .orElse(0);
            for (Map.Entry<String, Value> entry : group.values().entrySet()) {
                String line = assignment(entry);
                lines.add(line + " ".repeat(width - line.length()) + "  # "
                        + entry.getValue().origin());
            }
        }
        return lines;
    }

    private static String assignment(Map.Entry<String, Value> entry) {
        String text = entry.getValue().text();
        return text == null ? "# " + entry.getKey() : entry.getKey() + " = " + text;
    }

    /** A value of a key, or the default of one, as it may stand in a file. */
    public static String text(Object value) {
        List<?> list = value instanceof TomlArray array ? array.toList() : value instanceof List<?> some ? some : null;
        if (list != null) {
            return "["
                    + String.join(", ", list.stream().map(ResolvedValues::text).toList()) + "]";
        }
        if (value instanceof TomlTable table) {
            return "{"
                    + String.join(
                            ", ",
                            table.keySet().stream()
                                    .map(key -> name(key) + " = " + text(table.get(List.of(key))))
                                    .toList())
                    + "}";
        }
        return value instanceof Number || value instanceof Boolean
                ? value.toString()
                : "\"" + Toml.tomlEscape(value.toString()) + "\"";
    }

    /** A section's name as it may stand in a file: in quotes where it must. */
    public static String name(String name) {
        return Toml.joinKeyPath(List.of(name));
    }
}
