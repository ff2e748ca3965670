package io.ppmr.cli.config;

import com.fasterxml.jackson.core.io.JsonStringEncoder;
import java.util.ArrayList;
import java.util.List;
import org.tomlj.TomlArray;
import org.tomlj.TomlTable;

/** Writes values as they may stand in a TOML file. */
final class TomlText {
    private TomlText() {}

    /** A value of a key, or the default of one. */
    static String of(Object value) {
        if (value instanceof TomlArray array) {
            return list(array.toList());
        }
        if (value instanceof List<?> list) {
            return list(list);
        }
        if (value instanceof TomlTable table) {
            List<String> entries = new ArrayList<>();
            table.keySet().forEach(key -> entries.add(name(key) + " = " + of(table.get(List.of(key)))));
            return "{" + String.join(", ", entries) + "}";
        }
        return value instanceof Number || value instanceof Boolean ? value.toString() : quoted(value.toString());
    }

    /** A key or a section's name: bare where that is allowed. */
    static String name(String name) {
        return name.matches("[A-Za-z0-9_-]+") ? name : quoted(name);
    }

    private static String list(List<?> values) {
        return "[" + String.join(", ", values.stream().map(TomlText::of).toList()) + "]";
    }

    /** As in JSON, but for the one character that TOML wants escaped, too. */
    private static String quoted(String text) {
        return '"' + new String(JsonStringEncoder.getInstance().quoteAsString(text)).replace("\u007f", "\\u007F") + '"';
    }
}
