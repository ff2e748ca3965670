package io.ppmr.cli.config;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.tomlj.Toml;
import org.tomlj.TomlArray;
import org.tomlj.TomlParseResult;
import org.tomlj.TomlPosition;
import org.tomlj.TomlTable;

/**
 * A configuration file while it is read. Mistakes are gathered, so that all of them are told at once. For one thread,
 * for the time of the reading.
 */
final class ConfigFile {
    private static final long MAX_BYTES = 1 << 20;

    private final Path file;
    private final ValueType.Reading reading;
    private final List<Mistake> mistakes = new ArrayList<>();
    private final ResolvedValues resolved = new ResolvedValues();
    private final TomlTable root;

    /**
     * Parses it.
     *
     * @param here whether this is the node that it is for
     * @throws ConfigException if it cannot be read or is no TOML
     */
    ConfigFile(Path file, boolean here) throws ConfigException {
        this.file = file;
        Path folder = file.toAbsolutePath().getParent();
        this.reading = new ValueType.Reading(folder == null ? Path.of("/") : folder, here);
        this.root = parse();
    }

    private TomlTable parse() throws ConfigException {
        try {
            if (!Files.isRegularFile(file)) {
                throw failure("there is no such file: name one with --config (examples: conf/ of the project)");
            }
            if (Files.size(file) > MAX_BYTES) {
                throw failure("is larger than " + MAX_BYTES + " bytes: this is no configuration file");
            }
            TomlParseResult result = Toml.parse(file);
            if (result.hasErrors()) {
                result.errors()
                        .forEach(error -> mistakes.add(new Mistake(
                                file.toString(),
                                error.position().line(),
                                "",
                                "is no TOML here: " + error.getMessage())));
                throw new ConfigException(mistakes());
            }
            return result;
        } catch (IOException e) {
            throw failure("cannot be read: " + e.getMessage());
        }
    }

    private ConfigException failure(String text) {
        return new ConfigException(List.of(new Mistake(file.toString(), 0, "", text)));
    }

    boolean here() {
        return reading.here();
    }

    /** What was read so far, resolved. */
    ResolvedValues resolved() {
        return resolved;
    }

    /** Whether a key stands at the top. */
    boolean has(String name) {
        return root.contains(List.of(name));
    }

    /** The names under which a section stands, whatever is wrong in it. */
    Set<String> names(ConfigSection section) {
        return root.get(List.of(section.name())) instanceof TomlTable tables ? tables.keySet() : Set.of();
    }

    /** The top of a file of this role; reports what stands there and does not belong there. */
    Section top(ConfigRole role) {
        List<String> names = role.topNames();
        for (String name : root.keySet()) {
            ConfigRole other = ConfigRole.ALL.stream()
                    .filter(one -> one.topNames().contains(name))
                    .findFirst()
                    .orElse(role);
            if (names.contains(name)) {
                continue;
            }
            if (other.equals(role)) {
                reportUnknown(root, "", name, names);
            } else {
                String text = "belongs in a " + other.word() + "'s file; this is a " + role.word() + "'s, since it "
                        + (role.equals(ConfigRole.TARGET) ? "says listen" : "does not say listen");
                mistake(line(root, name), name, text + ": take it out");
            }
        }
        return new Section("", "", 0, root);
    }

    /** A section that stands once; where it is missing, its defaults hold. */
    Section section(ConfigSection section) {
        Object found = root.get(List.of(section.name()));
        if (found != null && !(found instanceof TomlTable)) {
            mistake(line(root, section.name()), section.name(), "must be a section: " + section.heading());
        }
        TomlTable table = found instanceof TomlTable known ? known : Toml.parse("");
        reportUnknown(table, section.name() + ".", keys(section));
        return new Section(section.name() + ".", section.heading(), line(root, section.name()), table);
    }

    /** The sections of one kind, by their names, in the file's order. */
    Map<String, Section> sections(ConfigSection section) {
        Map<String, Section> all = new LinkedHashMap<>();
        Object found = root.get(List.of(section.name()));
        if (found == null) {
            return all;
        }
        if (!(found instanceof TomlTable tables)) {
            mistake(line(root, section.name()), section.name(), "must be sections: " + section.heading());
            return all;
        }
        for (String name : tables.keySet()) {
            String path = section.name() + "." + name;
            if (tables.get(List.of(name)) instanceof TomlTable table) {
                reportUnknown(table, path + ".", keys(section));
                String heading = "[" + section.name() + "." + TomlText.name(name) + "]";
                all.put(name, new Section(path + ".", heading, line(tables, name), table));
            } else {
                mistake(
                        line(tables, name),
                        path,
                        "stands outside of a named section; write " + section.heading() + " before it");
            }
        }
        return all;
    }

    void mistake(int line, String key, String text) {
        mistakes.add(new Mistake(file.toString(), line, key, text));
    }

    List<Mistake> mistakes() {
        return mistakes.stream().sorted(Comparator.comparingInt(Mistake::line)).toList();
    }

    private static List<String> keys(ConfigSection section) {
        return section.keys().stream().map(ConfigKey::name).toList();
    }

    private void reportUnknown(TomlTable table, String prefix, List<String> known) {
        for (String name : table.keySet()) {
            if (!known.contains(name)) {
                reportUnknown(table, prefix, name, known);
            }
        }
    }

    private void reportUnknown(TomlTable table, String prefix, String name, List<String> known) {
        mistake(
                line(table, name),
                prefix + name,
                "there is no such key; "
                        + NearestName.of(name, known)
                                .map(nearest -> "did you mean " + nearest + "?")
                                .orElse("known here are " + String.join(", ", known)));
    }

    private static int line(TomlTable table, String key) {
        TomlPosition position = table.inputPositionOf(List.of(key));
        return position == null ? 0 : position.line();
    }

    /** A section as it stands in the file. */
    final class Section {
        private final String prefix;
        private final String heading;
        private final int headingLine;
        private final TomlTable table;

        private Section(String prefix, String heading, int headingLine, TomlTable table) {
            this.prefix = prefix;
            this.heading = heading;
            this.headingLine = headingLine;
            this.table = table;
        }

        boolean has(ConfigKey<?> key) {
            return table.contains(List.of(key.name()));
        }

        /** The value; null where it is optional and missing, or where a mistake was reported. */
        <T> T get(ConfigKey<T> key) {
            Object value = table.get(List.of(key.name()));
            if (value == null && key.required()) {
                bad(key, "is missing; it must be " + key.type().form() + " (" + key.doc() + ")");
            }
            String origin = value == null ? "default" : file + ":" + line(key);
            if (value == null) {
                value = key.defaultValue();
            }
            if (value == null) {
                resolved.add(prefix, heading, key.name(), null, "not set");
                return null;
            }
            try {
                T parsed = key.type().parse(value, reading);
                if (key.type() != ValueTypes.TABLES) {
                    resolved.add(prefix, heading, key.name(), parsed instanceof Path ? parsed : value, origin);
                }
                return parsed;
            } catch (BadValueException e) {
                bad(key, e.getMessage());
                return null;
            }
        }

        /** Reports a mistake about one of its keys. */
        void bad(ConfigKey<?> key, String text) {
            mistake(line(key), prefix + key.name(), text);
        }

        /** Where a key stands; where it does not, its section's heading. */
        private int line(ConfigKey<?> key) {
            int line = ConfigFile.line(table, key.name());
            return line == 0 ? headingLine : line;
        }

        /** Notes what holds for a key that is not set, by what else stands in the file. */
        void derived(ConfigKey<?> key, Object value, String reason) {
            resolved.add(prefix, heading, key.name(), value, reason);
        }

        /** The entries of a list of tables. */
        List<Section> tables(ConfigKey<TomlArray> key, ConfigSection entry) {
            List<Section> all = new ArrayList<>();
            TomlArray array = get(key);
            for (int i = 0; array != null && i < array.size(); i++) {
                String path = prefix + key.name() + "[" + i + "].";
                TomlTable one = array.getTable(i);
                reportUnknown(one, path, keys(entry));
                String inner = heading.substring(1, heading.length() - 1) + "." + key.name();
                all.add(new Section(path, "[[" + inner + "]]", line(key), one));
            }
            return all;
        }

        /** Reports those keys of the section that are set although they mean nothing here. */
        void refuse(List<ConfigKey<?>> meaningless, String reason) {
            meaningless.stream().filter(this::has).forEach(key -> bad(key, reason));
        }
    }
}
