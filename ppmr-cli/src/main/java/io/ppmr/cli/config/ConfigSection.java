package io.ppmr.cli.config;

import java.util.List;

/**
 * A section of a configuration file.
 *
 * @param name as in {@code [name]}; empty for the top of the file
 * @param many whether it stands once for each of several names, as {@code [name.NAME]}
 * @param doc what it is for
 * @param keys its keys, in the order of the documentation
 */
public record ConfigSection(String name, boolean many, String doc, List<ConfigKey<?>> keys) {
    public ConfigSection {
        keys = List.copyOf(keys);
    }

    /** How its heading is written. */
    public String heading() {
        return name.isEmpty() ? "the top of the file" : many ? "[" + name + ".NAME]" : "[" + name + "]";
    }
}
