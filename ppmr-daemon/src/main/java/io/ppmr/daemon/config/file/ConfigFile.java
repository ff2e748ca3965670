package io.ppmr.daemon.config.file;

import io.ppmr.daemon.config.file.ConfigException.Mistake;
import io.ppmr.daemon.config.file.ConfigSection.ConfigKey;
import io.ppmr.daemon.config.file.ValueType.BadValueException;
import io.ppmr.linux.FileFailure;
import io.ppmr.linux.SecretWords;
import io.ppmr.linux.config.Key;
import java.io.IOException;
import java.lang.reflect.Array;
import java.lang.reflect.Constructor;
import java.lang.reflect.RecordComponent;
import java.nio.charset.CharacterCodingException;
import java.nio.file.AccessDeniedException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.attribute.BasicFileAttributes;
import java.nio.file.attribute.PosixFilePermission;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.tomlj.Toml;
import org.tomlj.TomlArray;
import org.tomlj.TomlParseError;
import org.tomlj.TomlParseResult;
import org.tomlj.TomlPosition;
import org.tomlj.TomlTable;

/**
 * A configuration file during the reading. Collects the mistakes, so that all are reported at once. It is for one
 * thread.
 */
public final class ConfigFile {
    private static final Logger LOG = LoggerFactory.getLogger(ConfigFile.class);
    private static final long MAX_BYTES = 1 << 20;
    private static final int MOST_ZEROS = 64;
    private static final int MOST_DEPTH = 64;
    private static final Set<PosixFilePermission> OTHERS_MAY_READ =
            Set.of(PosixFilePermission.GROUP_READ, PosixFilePermission.OTHERS_READ);

    private final Path file;
    private final ValueType.Reading reading;
    private final List<Mistake> mistakes = new ArrayList<>();
    private final ResolvedValues resolved = new ResolvedValues();
    private final Map<Class<? extends Record>, FileSection<?>> once = new HashMap<>();
    private final TomlTable root;

    /**
     * Parses a file.
     *
     * @param here whether the file is for this node
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
            if (Files.isDirectory(file)) {
                throw failure("is a directory: name the file in it");
            }
            if (!Files.isRegularFile(file)) {
                // The attributes distinguish a missing file from one that cannot be reached.
                Files.readAttributes(file, BasicFileAttributes.class);
                throw failure("is not a regular file: name a file");
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
                                "is not valid TOML: " + error.getMessage())));
                requireGood();
            }
            return result;
        } catch (CharacterCodingException e) {
            throw failure("is not UTF-8: this is no configuration file");
        } catch (NoSuchFileException e) {
            throw failure("does not exist: correct the path (examples are in conf/ of the installation)");
        } catch (AccessDeniedException e) {
            throw failure("permission denied: only root and the service's user may read it. Run this as root, or"
                    + " name the service's control socket with --socket");
        } catch (IOException e) {
            throw failure("cannot be read: " + FileFailure.describe(e));
        }
    }

    private TomlParseResult parsed(String text) throws ConfigException {
        try {
            return Toml.parse(text);
        } catch (TomlParseError e) {
            // Most mistakes are in the result. The parser throws the mistakes in a key's escapes.
            throw new ConfigException(List.of(
                    new Mistake(file.toString(), e.position().line(), "", "is not valid TOML: " + e.getMessage())));
        } catch (RuntimeException | AssertionError e) {
            // For some incomplete escapes the parser throws as for a defect of its own.
            throw (ConfigException) failure("is not valid TOML: a text in it has an escape (\\) that is not whole")
                    .initCause(e);
        }
    }

    /** The parser scans from each zero to the end of the row: many of them would cost seconds, and the heap. */
    private void requireFewZeros(String text) throws ConfigException {
        if (text.contains("0".repeat(MOST_ZEROS + 1))) {
            throw failure("has more than " + MOST_ZEROS + " zeros in a row: no value here is so long");
        }
    }

    /** The parser recurses for each nested list or table, so many of them would overflow the stack. */
    private void requireShallow(String text) throws ConfigException {
        // Brackets in texts and comments count, too: commands have few open brackets.
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

    /** Returns true if the file is for this node, and users other than its owner can read it. */
    private boolean isOpenToOthers() {
        try {
            return reading.here() && !Collections.disjoint(Files.getPosixFilePermissions(file), OTHERS_MAY_READ);
        } catch (IOException e) {
            // The file was removed after the reading.
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

    /** Returns true if the top of the file has this key or section. */
    public boolean contains(String name) {
        return root.contains(List.of(name));
    }

    /** Returns the names of the sections of a kind, even if they have mistakes. */
    public Set<String> names(Class<? extends Record> type) {
        return root.get(List.of(ConfigSection.of(type).name())) instanceof TomlTable tables
                ? tables.keySet()
                : Set.of();
    }

    /**
     * Reads the top of the file. Reports keys and sections that do not belong there.
     *
     * @param type the record of its keys
     * @param known the names of all keys and sections that may occur there
     * @param elsewhere the messages about names that belong in files of another role
     */
    public <R extends Record> FileSection<R> top(Class<R> type, List<String> known, Map<String, String> elsewhere) {
        for (String name : root.keySet()) {
            if (!known.contains(name) && elsewhere.containsKey(name)) {
                mistake(line(root, name), name, elsewhere.get(name));
            } else if (!known.contains(name)) {
                report(root, "", name, ConfigSection.of(type), known);
            }
        }
        return new FileSection<>(type, new Place("", "", 0, root));
    }

    /** Returns a section that can occur once, read at the first call. A missing section has the defaults. */
    public <R extends Record> FileSection<R> section(Class<R> type) {
        // The map holds each section under its own type.
        @SuppressWarnings("unchecked")
        FileSection<R> section = (FileSection<R>) once.computeIfAbsent(type, unused -> read(type));
        return section;
    }

    private <R extends Record> FileSection<R> read(Class<R> type) {
        ConfigSection section = ConfigSection.of(type);
        Object found = root.get(List.of(section.name()));
        if (found != null && !(found instanceof TomlTable)) {
            mistake(line(root, section.name()), section.name(), "must be a section: " + section.heading());
        }
        TomlTable table = found instanceof TomlTable known ? known : Toml.parse("");
        reportOthers(table, section.name() + ".", section);
        return new FileSection<>(
                type, new Place(section.name() + ".", section.heading(), line(root, section.name()), table));
    }

    /** Returns the sections of one kind, by their names, in the order of the file. */
    public <R extends Record> Map<String, FileSection<R>> sections(Class<R> type) {
        ConfigSection section = ConfigSection.of(type);
        Map<String, FileSection<R>> all = new LinkedHashMap<>();
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
                reportOthers(table, path + ".", section);
                String heading = "[" + section.name() + "." + ResolvedValues.name(name) + "]";
                all.put(name, new FileSection<>(type, new Place(path + ".", heading, line(tables, name), table)));
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

    /** Ends the reading. Throws with all mistakes, if there are any. */
    public void requireGood() throws ConfigException {
        if (!mistakes.isEmpty()) {
            throw new ConfigException(mistakes.stream()
                    .sorted(Comparator.comparingInt(Mistake::line))
                    .toList());
        }
    }

    private void reportOthers(TomlTable table, String prefix, ConfigSection section) {
        List<String> known = section.names();
        for (String name : table.keySet()) {
            if (!known.contains(name)) {
                report(table, prefix, name, section, known);
            }
        }
    }

    /** Reports a name that this release does not have: a warning if the release before has it, else a mistake. */
    private void report(TomlTable table, String prefix, String name, ConfigSection section, List<String> known) {
        Optional<String> renamed = section.formerly(name).map(ConfigKey::name);
        if (renamed.isPresent() && table.contains(List.of(renamed.get()))) {
            mistake(
                    line(table, name),
                    prefix + name,
                    "is the former name of " + renamed.get() + ", which is set, too: remove one of both");
        } else if (renamed.isPresent()) {
            warn(line(table, name), prefix + name, "has a new name. Remedy: write " + renamed.get() + " instead of it");
        } else if (section.removed().contains(name)) {
            warn(line(table, name), prefix + name, "has no effect in this release. Remedy: remove it");
        } else {
            reportUnknown(table, prefix, name, known);
        }
    }

    private void warn(int line, String key, String text) {
        resolved.warn(new Mistake(file.toString(), line, key, text + ". The next release refuses it"));
    }

    /** Logs what this release accepts and the next one refuses. */
    public void logWarnings() {
        resolved.warnings().forEach(warning -> LOG.warn("{}", warning));
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

    /** Looks up a value on this node. */
    @FunctionalInterface
    public interface Lookup<T, R> {
        R of(T value) throws BadValueException, IOException;
    }

    /**
     * The place of a section in the file.
     *
     * @param prefix the prefix of its keys in messages
     * @param heading its heading in the file, or empty for the top
     * @param headingLine the line of the heading, or 0 for none
     * @param table its content
     */
    private record Place(String prefix, String heading, int headingLine, TomlTable table) {}

    /**
     * A section: its values and their lines, for later checks. After a mistake, a value is the default, so that the
     * reading continues. Without a default it is null, 0 or false.
     *
     * @param <R> the record that declares its keys
     */
    public final class FileSection<R extends Record> {
        private final ConfigSection declared;
        private final Place place;
        private final Map<Class<?>, List<FileSection<?>>> entries = new HashMap<>();
        private final R values;

        private FileSection(Class<R> type, Place place) {
            this.declared = ConfigSection.of(type);
            this.place = place;
            this.values = make(type);
        }

        /** Returns its values. */
        public R values() {
            return values;
        }

        private <G> G make(Class<G> type) {
            RecordComponent[] components = type.getRecordComponents();
            Class<?>[] types = new Class<?>[components.length];
            Object[] arguments = new Object[components.length];
            for (int i = 0; i < components.length; i++) {
                types[i] = components[i].getType();
                arguments[i] = components[i].isAnnotationPresent(Key.class)
                        ? argument(types[i], get(declared.key(ConfigKey.nameOf(components[i]))))
                        : make(types[i]);
            }
            try {
                Constructor<G> constructor = type.getDeclaredConstructor(types);
                constructor.setAccessible(true);
                return constructor.newInstance(arguments);
            } catch (ReflectiveOperationException e) {
                throw new IllegalStateException(type + " cannot be made of its keys", e);
            }
        }

        private static Object argument(Class<?> type, Object value) {
            if (type == Optional.class) {
                return Optional.ofNullable(value);
            }
            return value != null || !type.isPrimitive() ? value : Array.get(Array.newInstance(type, 1), 0);
        }

        /** Returns true if the file sets this key. */
        public boolean has(String key) {
            return place.table().contains(List.of(written(declared.key(key))));
        }

        /** Returns the name of a key in the file, which may be that of the release before. */
        private String written(ConfigKey key) {
            return key.former()
                    .filter(former -> place.table().contains(List.of(former)))
                    .orElse(key.name());
        }

        private Object get(ConfigKey key) {
            Object written = place.table().get(List.of(written(key)));
            if (written == null && key.required()) {
                bad(key.name(), "is missing; it must be " + key.type().form() + " (" + key.doc() + ")");
            }
            Object value = written == null ? null : parsed(key, written);
            String origin = file + ":" + line(key.name());
            if (value == null) {
                written = key.defaultValue();
                value = written == null ? null : parsed(key, written);
                origin = value == null ? "not set" : "default";
            }
            if (value instanceof TomlArray tables) {
                return entries(key, tables);
            }
            derived(key.name(), value instanceof Path ? value : written, origin);
            return value;
        }

        private Object parsed(ConfigKey key, Object written) {
            try {
                Object value = key.type().parse(written, reading);
                if (value instanceof List<?> list) {
                    requireHidden(key, list);
                }
                return value;
            } catch (BadValueException e) {
                bad(key.name(), e.getMessage());
                return null;
            }
        }

        /** Reports a password in a command, if every user of the node can read the file. */
        private void requireHidden(ConfigKey key, List<?> list) {
            List<String> words = list.stream()
                    .filter(String.class::isInstance)
                    .map(String.class::cast)
                    .toList();
            SecretWords.in(words)
                    .filter(behind -> isOpenToOthers())
                    .ifPresent(behind -> bad(
                            key.name(),
                            "has what looks like a password, behind " + behind + ", and others than the owner can read "
                                    + file + ": put the password into a file of its own, mode 0600, which the command"
                                    + " is given the name of (fence.password_file), or chmod 0600 " + file));
        }

        /** Throws, with all mistakes so far, if one of them is about this key. */
        public void require(String key) throws ConfigException {
            String path = place.prefix() + declared.key(key).name();
            if (mistakes.stream().anyMatch(mistake -> mistake.key().equals(path))) {
                requireGood();
            }
        }

        /**
         * Looks up the value of a key on this node. Returns null if the file is for another node.
         *
         * @param value the value of the key; null, which is returned as null, if the value is not set or is bad
         */
        public <T, L> L here(String key, T value, Lookup<T, L> lookup) {
            try {
                return value == null || !reading.here() ? null : lookup.of(value);
            } catch (BadValueException | IOException e) {
                bad(key, e.getMessage());
                return null;
            }
        }

        /** Returns true if no mistake was reported about its keys. */
        public boolean isGood() {
            return mistakes.stream().noneMatch(mistake -> mistake.key().startsWith(place.prefix()));
        }

        /** Reports a mistake about one of its keys. */
        public void bad(String key, String text) {
            mistake(line(key), place.prefix() + declared.key(key).name(), text);
        }

        /** Returns the form of a key, to follow "must be". */
        public String form(String key) {
            return declared.key(key).type().form();
        }

        /** Returns the line of a key, or of its section's heading if the key is not set. */
        private int line(String key) {
            int line = ConfigFile.line(place.table(), written(declared.key(key)));
            return line == 0 ? place.headingLine() : line;
        }

        /** Records the value of a key, and its origin. */
        public void derived(String key, Object value, String reason) {
            resolved.add(place.prefix(), place.heading(), key, value, reason);
        }

        /** Removes a key without meaning from the resolved values. */
        public void leaveOut(String key) {
            resolved.remove(place.prefix(), declared.key(key).name());
        }

        /** Returns the entries of its list of such tables, in order. Returns none without such a list. */
        public <E extends Record> List<FileSection<E>> entries(Class<E> type) {
            List<FileSection<E>> all = new ArrayList<>();
            for (FileSection<?> entry : entries.getOrDefault(type, List.of())) {
                // The map holds entries of this type under it.
                @SuppressWarnings("unchecked")
                FileSection<E> known = (FileSection<E>) entry;
                all.add(known);
            }
            return all;
        }

        private List<Object> entries(ConfigKey key, TomlArray array) {
            Class<? extends Record> type = key.entries().orElseThrow();
            List<FileSection<?>> all = new ArrayList<>();
            for (int i = 0; i < array.size(); i++) {
                String path = place.prefix() + key.name() + "[" + i + "].";
                TomlTable one = array.getTable(i);
                reportOthers(one, path, ConfigSection.of(type));
                String outer = place.heading();
                String inner = outer.isEmpty() ? key.name() : outer.substring(1, outer.length() - 1) + "." + key.name();
                all.add(new FileSection<>(type, new Place(path, "[[" + inner + "]]", line(key.name()), one)));
            }
            entries.put(type, all);
            return all.stream().<Object>map(FileSection::values).toList();
        }
    }
}
