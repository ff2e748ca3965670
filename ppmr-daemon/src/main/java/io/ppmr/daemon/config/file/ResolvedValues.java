package io.ppmr.daemon.config.file;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.tomlj.Toml;
import org.tomlj.TomlArray;
import org.tomlj.TomlTable;

/**
 * The values of a configuration file, with defaults and resolved paths, and the origin of each value. The thread that
 * reads the file fills it. Afterwards it is for any thread.
 */
public final class ResolvedValues {
    private final Map<String, Group> groups = new LinkedHashMap<>();
    private final List<ConfigException.Mistake> warnings = new ArrayList<>();

    private record Group(String heading, Map<String, Value> values) {}

    /**
     * A value.
     *
     * @param text its form in the file, or null for no value
     * @param origin its origin
     */
    private record Value(String text, String origin) {}

    /**
     * Records a value. The last value for a key counts.
     *
     * @param path the unique path of the section in the file
     * @param heading its heading in the file, or empty for the top
     */
    public void add(String path, String heading, String key, Object value, String origin) {
        groups.computeIfAbsent(path, unused -> new Group(heading, new LinkedHashMap<>()))
                .values()
                .put(key, new Value(value == null ? null : text(value), origin));
    }

    void warn(ConfigException.Mistake warning) {
        warnings.add(warning);
    }

    /** Returns what this release accepts in the file and the next one refuses. */
    public List<ConfigException.Mistake> warnings() {
        return List.copyOf(warnings);
    }

    void remove(String path, String key) {
        groups.get(path).values().remove(key);
    }

    /** Returns the lines of an equivalent configuration file, each value followed by its origin. */
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

    /** Returns the form of a value or a default in a file. */
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

    /** Returns the form of a section's name in a file, quoted if necessary. */
    public static String name(String name) {
        return Toml.joinKeyPath(List.of(name));
    }
}
