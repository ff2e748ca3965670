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
                throw new ConfigException(mistakes);
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

    /** Whether a key stands at the top. */
    boolean has(String name) {
        return root.contains(List.of(name));
    }

    /** The names under which a section stands, whatever is wrong in it. */
    Set<String> names(ConfigSection section) {
        return root.get(List.of(section.name())) instanceof TomlTable tables ? tables.keySet() : Set.of();
    }

    /** Reports what stands at the top and is neither a key of {@code top} nor one of the sections. */
    Section top(ConfigSection top, List<ConfigSection> sections) {
        List<String> names =
                new ArrayList<>(top.keys().stream().map(ConfigKey::name).toList());
        sections.forEach(section -> names.add(section.name()));
        reportUnknown(root, "", names);
        return new Section("", root);
    }

    /** A section that stands once; where it is missing, its defaults hold. */
    Section section(ConfigSection section) {
        Object found = root.get(List.of(section.name()));
        if (found != null && !(found instanceof TomlTable)) {
            mistake(line(root, section.name()), section.name(), "must be a section: " + section.heading());
        }
        TomlTable table = found instanceof TomlTable known ? known : Toml.parse("");
        reportUnknown(table, section.name() + ".", keys(section));
        return new Section(section.name() + ".", table);
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
                all.put(name, new Section(path + ".", table));
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
                mistake(
                        line(table, name),
                        prefix + name,
                        "there is no such key; "
                                + NearestName.of(name, known)
                                        .map(nearest -> "did you mean " + nearest + "?")
                                        .orElse("known here are " + String.join(", ", known)));
            }
        }
    }

    private static int line(TomlTable table, String key) {
        TomlPosition position = table.inputPositionOf(List.of(key));
        return position == null ? 0 : position.line();
    }

    /** A section as it stands in the file. */
    final class Section {
        private final String prefix;
        private final TomlTable table;

        private Section(String prefix, TomlTable table) {
            this.prefix = prefix;
            this.table = table;
        }

        boolean has(ConfigKey<?> key) {
            return table.contains(List.of(key.name()));
        }

        /** The value; null where it is optional and missing, or where a mistake was reported. */
        <T> T get(ConfigKey<T> key) {
            Object value = table.get(List.of(key.name()));
            if (value == null && key.required()) {
                mistake(
                        0,
                        prefix + key.name(),
                        "is missing; it must be " + key.type().form() + " (" + key.doc() + ")");
            }
            if (value == null) {
                value = key.defaultValue();
            }
            if (value == null) {
                return null;
            }
            try {
                return key.type().parse(value, reading);
            } catch (BadValueException e) {
                bad(key, e.getMessage());
                return null;
            }
        }

        /** Reports a mistake about one of its keys. */
        void bad(ConfigKey<?> key, String text) {
            mistake(line(table, key.name()), prefix + key.name(), text);
        }

        /** The entries of a list of tables. */
        List<Section> tables(ConfigKey<TomlArray> key, ConfigSection entry) {
            List<Section> all = new ArrayList<>();
            TomlArray array = get(key);
            for (int i = 0; array != null && i < array.size(); i++) {
                String path = prefix + key.name() + "[" + i + "].";
                TomlTable one = array.getTable(i);
                reportUnknown(one, path, keys(entry));
                all.add(new Section(path, one));
            }
            return all;
        }

        /** Reports those keys of the section that are set although they mean nothing here. */
        void refuse(List<ConfigKey<?>> meaningless, String reason) {
            meaningless.stream().filter(this::has).forEach(key -> bad(key, reason));
        }
    }
}
