package io.ppmr.daemon.config;

import io.ppmr.daemon.config.file.ConfigRole;
import io.ppmr.daemon.config.file.ConfigSection;
import io.ppmr.daemon.config.file.ConfigSection.ConfigKey;
import io.ppmr.daemon.config.file.ResolvedValues;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;

/**
 * An example of a configuration file with every possible key. It is generated from the records that the files are read
 * into. The printed file is valid. Optional keys follow a {@code #}.
 */
public final class ConfigExample {
    private static final int WIDTH = 100;
    /** Sections that a role needs, and an optional key of which it needs one of several. */
    private static final Set<String> NEEDED_SECTIONS = Set.of("checkpointers");

    private static final Set<String> NEEDED_KEYS = Set.of("target.address");
    /** The name in headings that have one: the examples of other keys name this checkpointer. */
    private static final String CHECKPOINTER = "criu";

    private static final String NAME = "example";

    private ConfigExample() {}

    /** Returns the file of a role. */
    public static String of(ConfigRole role) {
        List<String> lines = new ArrayList<>();
        comment(
                lines,
                "An example of a " + role.word() + "'s file, with every key. A line with # before a key or a heading is"
                        + " an optional key or section, with an example. Made by: ppmr config example " + role.word());
        for (ConfigSection section : role.everything()) {
            section(lines, section);
        }
        return String.join("\n", lines) + "\n";
    }

    private static void section(List<String> lines, ConfigSection section) {
        boolean written = !section.many() || NEEDED_SECTIONS.contains(section.name());
        lines.add("");
        comment(lines, section.doc());
        if (!section.name().isEmpty()) {
            String name = NEEDED_SECTIONS.contains(section.name()) ? CHECKPOINTER : NAME;
            String heading = section.many() ? section.heading().replace("NAME", name) : section.heading();
            lines.add((written ? "" : "#") + heading);
        }
        for (ConfigKey key : section.keys()) {
            boolean needed = key.required() || NEEDED_KEYS.contains(section.name() + "." + key.name());
            lines.add("");
            key(lines, key);
            lines.add((written && needed ? "" : "#") + key.name() + " = " + ResolvedValues.text(key.example()));
        }
    }

    private static void key(List<String> lines, ConfigKey key) {
        String fallback = key.required()
                ? "Required."
                : key.defaultValue() == null ? "" : "Default: " + ResolvedValues.text(key.defaultValue()) + ".";
        comment(lines, sentence(key.doc()) + " " + fallback);
        key.entrySection().ifPresent(entry -> entry.keys()
                .forEach(one -> comment(
                        lines,
                        "- " + one.name() + ": " + one.doc() + " ("
                                + (one.required() ? "required" : one.type().form()) + ")")));
    }

    private static String sentence(String doc) {
        String text = Character.toUpperCase(doc.charAt(0)) + doc.substring(1);
        return text.endsWith(".") ? text : text + ".";
    }

    private static void comment(List<String> lines, String text) {
        StringBuilder line = new StringBuilder("#");
        for (String word : text.strip().split(" ", -1)) {
            if (line.length() + 1 + word.length() > WIDTH) {
                lines.add(line.toString());
                line = new StringBuilder("#");
            }
            line.append(' ').append(word);
        }
        lines.add(line.toString());
    }
}
