package io.ppmr.daemon.config.file;

import io.ppmr.daemon.config.file.ConfigException.Mistake;
import io.ppmr.daemon.config.file.ConfigSection.ConfigKey;
import io.ppmr.daemon.config.file.ValueType.BadValueException;
import io.ppmr.os.SecretWords;
import java.io.IOException;
import java.nio.charset.CharacterCodingException;
import java.nio.file.AccessDeniedException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermission;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.tomlj.Toml;
import org.tomlj.TomlArray;
import org.tomlj.TomlParseError;
import org.tomlj.TomlParseResult;
import org.tomlj.TomlPosition;
import org.tomlj.TomlTable;

/**
 * A configuration file while it is read. Mistakes are gathered, so that all of them are told at once. For one thread,
 * for the time of the reading.
 */
public final class ConfigFile {
    private static final long MAX_BYTES = 1 << 20;
    private static final int MOST_ZEROS = 64;
    private static final int MOST_DEPTH = 64;
    private static final int MAX_EDIT_DISTANCE = 3;
    private static final Set<PosixFilePermission> OTHERS_MAY_READ =
            Set.of(PosixFilePermission.GROUP_READ, PosixFilePermission.OTHERS_READ);

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
    public ConfigFile(Path file, boolean here) throws ConfigException {
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
            String text = Files.readString(file);
            requireShallow(text);
            requireFewZeros(text);
            TomlParseResult result = parsed(text);
            if (result.hasErrors()) {
                result.errors()
                        .forEach(error -> mistakes.add(new Mistake(
                                file.toString(),
                                error.position().line(),
                                "",
                                "is no TOML here: " + error.getMessage())));
                requireGood();
            }
            return result;
        } catch (CharacterCodingException e) {
            throw failure("is not UTF-8: this is no configuration file");
        } catch (IOException e) {
            throw failure("cannot be read: " + e.getMessage()
                    + (e instanceof AccessDeniedException
                            ? ": it is for the service's user; --socket names a service without it"
                            : ""));
        }
    }

    private TomlParseResult parsed(String text) throws ConfigException {
        try {
            return Toml.parse(text);
        } catch (TomlParseError e) {
            // Most mistakes are in the result; those in a key's escapes are thrown.
            throw new ConfigException(List.of(
                    new Mistake(file.toString(), e.position().line(), "", "is no TOML here: " + e.getMessage())));
        } catch (RuntimeException | AssertionError e) {
            // Some escapes that are not whole the parser takes for its own defects.
            throw (ConfigException) failure("is no TOML: a text in it has an escape (\\) that is not whole")
                    .initCause(e);
        }
    }

    /** The parser looks from each zero to the end of their row: many of them would cost seconds, and the heap. */
    private void requireFewZeros(String text) throws ConfigException {
        if (text.contains("0".repeat(MOST_ZEROS + 1))) {
            throw failure("has more than " + MOST_ZEROS + " zeros in a row: no value here is so long");
        }
    }

    /** The parser calls itself for each list or table in another one, so many of them would end its thread. */
    private void requireShallow(String text) throws ConfigException {
        // Those in texts and comments count as well: programs and their arguments have few of them open.
        int depth = 0;
        for (int i = 0; i < text.length(); i++) {
            char one = text.charAt(i);
            if (one == '[' || one == '{') {
                depth++;
            } else if ((one == ']' || one == '}') && depth > 0) {
                depth--;
            }
            if (depth > MOST_DEPTH) {
                throw failure("has more than " + MOST_DEPTH + " brackets open at once: close each");
            }
        }
    }

    /** Returns true if this is the node that the file is for, and others than its owner can read it. */
    private boolean isOpenToOthers() {
        try {
            return reading.here() && !Collections.disjoint(Files.getPosixFilePermissions(file), OTHERS_MAY_READ);
        } catch (IOException e) {
            // It was removed after it was read.
            return true;
        }
    }

    private ConfigException failure(String text) {
        return new ConfigException(List.of(new Mistake(file.toString(), 0, "", text)));
    }

    public boolean here() {
        return reading.here();
    }

    /** Returns the values that were read so far, resolved. */
    public ResolvedValues resolved() {
        return resolved;
    }

    /** Returns true if a key stands at its top, before any section. */
    public boolean says(ConfigKey<?> key) {
        return root.contains(key.name());
    }

    /** Returns true if a section, or a kind of them, stands in it. */
    public boolean has(ConfigSection section) {
        return root.contains(List.of(section.name()));
    }

    /** The names under which a section stands, whatever is wrong in it. */
    public Set<String> names(ConfigSection section) {
        return root.get(List.of(section.name())) instanceof TomlTable tables ? tables.keySet() : Set.of();
    }

    /**
     * The top of the file; reports what stands there and does not belong there.
     *
     * @param known the names of all keys and sections that may stand there
     * @param elsewhere what is said of names that belong into files of another kind
     */
    public Section top(List<String> known, Map<String, String> elsewhere) {
        for (String name : root.keySet()) {
            if (!known.contains(name) && elsewhere.containsKey(name)) {
                mistake(line(root, name), name, elsewhere.get(name));
            } else if (!known.contains(name)) {
                reportUnknown(root, "", name, known);
            }
        }
        return new Section("", "", 0, root);
    }

    /** A section that stands once; where it is missing, its defaults hold. */
    public Section section(ConfigSection section) {
        Object found = root.get(List.of(section.name()));
        if (found != null && !(found instanceof TomlTable)) {
            mistake(line(root, section.name()), section.name(), "must be a section: " + section.heading());
        }
        TomlTable table = found instanceof TomlTable known ? known : Toml.parse("");
        reportUnknown(table, section.name() + ".", keys(section));
        return new Section(section.name() + ".", section.heading(), line(root, section.name()), table);
    }

    /** The sections of one kind, by their names, in the file's order. */
    public Map<String, Section> sections(ConfigSection section) {
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
                String heading = "[" + section.name() + "." + ResolvedValues.name(name) + "]";
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

    public void mistake(int line, String key, String text) {
        mistakes.add(new Mistake(file.toString(), line, key, text));
    }

    /** Ends the reading; throws with all mistakes if there are some. */
    public void requireGood() throws ConfigException {
        if (!mistakes.isEmpty()) {
            throw new ConfigException(mistakes.stream()
                    .sorted(Comparator.comparingInt(Mistake::line))
                    .toList());
        }
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
                        + nearest(name, known)
                                .map(nearest -> "did you mean " + nearest + "?")
                                .orElse("known here are " + String.join(", ", known)));
    }

    /** The name that was probably meant: the one at the smallest edit distance (Levenshtein 1966). */
    private static Optional<String> nearest(String written, List<String> known) {
        return known.stream()
                .min(Comparator.comparingInt(name -> distance(written, name)))
                .filter(name -> distance(written, name) <= Math.min(MAX_EDIT_DISTANCE, name.length() / 2));
    }

    private static int distance(String a, String b) {
        int[] row = new int[b.length() + 1];
        for (int j = 0; j <= b.length(); j++) {
            row[j] = j;
        }
        for (int i = 1; i <= a.length(); i++) {
            int diagonal = row[0];
            row[0] = i;
            for (int j = 1; j <= b.length(); j++) {
                int substituted = diagonal + (a.charAt(i - 1) == b.charAt(j - 1) ? 0 : 1);
                diagonal = row[j];
                row[j] = Math.min(substituted, 1 + Math.min(row[j], row[j - 1]));
            }
        }
        return row[b.length()];
    }

    private static int line(TomlTable table, String key) {
        TomlPosition position = table.inputPositionOf(List.of(key));
        return position == null ? 0 : position.line();
    }

    /** Finds out what a value stands for on this node. */
    @FunctionalInterface
    public interface Lookup<T, R> {
        R of(T value) throws BadValueException, IOException;
    }

    /** A section as it stands in the file. */
    public final class Section {
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

        public boolean has(ConfigKey<?> key) {
            return table.contains(List.of(key.name()));
        }

        /**
         * The value. Where a mistake was reported it is the default, so that the reading goes on; null where there is
         * none.
         */
        public <T> T get(ConfigKey<T> key) {
            Object written = table.get(List.of(key.name()));
            if (written == null && key.required()) {
                bad(key, "is missing; it must be " + key.type().form() + " (" + key.doc() + ")");
            }
            T value = written == null ? null : parsed(key, written);
            String origin = file + ":" + line(key);
            if (value == null) {
                written = key.defaultValue();
                value = written == null ? null : parsed(key, written);
                origin = value == null ? "not set" : "default";
            }
            if (!(value instanceof TomlArray)) {
                derived(key, value instanceof Path ? value : written, origin);
            }
            return value;
        }

        private <T> T parsed(ConfigKey<T> key, Object written) {
            try {
                T value = key.type().parse(written, reading);
                if (value instanceof List<?> list) {
                    requireHidden(key, list);
                }
                return value;
            } catch (BadValueException e) {
                bad(key, e.getMessage());
                return null;
            }
        }

        /** A password in a command is refused in a file that every user of the node can read. */
        private void requireHidden(ConfigKey<?> key, List<?> list) {
            List<String> words = list.stream()
                    .filter(String.class::isInstance)
                    .map(String.class::cast)
                    .toList();
            SecretWords.in(words)
                    .filter(behind -> isOpenToOthers())
                    .ifPresent(behind -> bad(
                            key,
                            "has what looks like a password, behind " + behind + ", and others than the owner can read "
                                    + file + ": put the password into a file of its own, mode 0600, which the command"
                                    + " is given the name of (fence.password_file), or chmod 0600 " + file));
        }

        /** The value, whatever else is wrong in the file; throws if there is none that can be meant. */
        public <T> T require(ConfigKey<T> key) throws ConfigException {
            int before = mistakes.size();
            T value = get(key);
            if (mistakes.size() > before) {
                requireGood();
            }
            return value;
        }

        /** Looks up a value on this node; null where it is not set, is bad, or the file is for another node. */
        public <T, R> R here(ConfigKey<T> key, Lookup<T, R> lookup) {
            T value = get(key);
            try {
                return value == null || !reading.here() ? null : lookup.of(value);
            } catch (BadValueException | IOException e) {
                bad(key, e.getMessage());
                return null;
            }
        }

        /** Returns true if nothing is wrong so far with any of its keys. */
        public boolean isGood() {
            return mistakes.stream().noneMatch(mistake -> mistake.key().startsWith(prefix));
        }

        /** Reports a mistake about one of its keys. */
        public void bad(ConfigKey<?> key, String text) {
            mistake(line(key), prefix + key.name(), text);
        }

        /** Returns the line of a key; of its section's heading if the key is not set. */
        private int line(ConfigKey<?> key) {
            int line = ConfigFile.line(table, key.name());
            return line == 0 ? headingLine : line;
        }

        /** Notes what holds for a key, and by what. */
        public void derived(ConfigKey<?> key, Object value, String reason) {
            resolved.add(prefix, heading, key.name(), value, reason);
        }

        /** The entries of a list of tables. */
        public List<Section> tables(ConfigKey<TomlArray> key, ConfigSection entry) {
            List<Section> all = new ArrayList<>();
            TomlArray array = get(key);
            for (int i = 0; array != null && i < array.size(); i++) {
                String path = prefix + key.name() + "[" + i + "].";
                TomlTable one = array.getTable(i);
                reportUnknown(one, path, keys(entry));
                String inner =
                        heading.isEmpty() ? key.name() : heading.substring(1, heading.length() - 1) + "." + key.name();
                all.add(new Section(path, "[[" + inner + "]]", line(key), one));
            }
            return all;
        }
    }
}
