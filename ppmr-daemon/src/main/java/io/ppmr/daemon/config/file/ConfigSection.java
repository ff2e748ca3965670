package io.ppmr.daemon.config.file;

import io.ppmr.linux.config.Key;
import io.ppmr.linux.config.RemovedKeys;
import io.ppmr.linux.config.Section;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.RecordComponent;
import java.lang.reflect.Type;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Optional;

/**
 * A section of a configuration file, as the record of its values declares it. It is immutable.
 *
 * @param type the record
 * @param name its name, as in {@code [name]}, or empty for the top of the file and for entries of a list
 * @param many whether it can occur once for each of several names, as {@code [name.NAME]}
 * @param doc its purpose
 * @param keys its keys, in the order of the documentation
 * @param removed the names of keys that only the release before has
 */
public record ConfigSection(
        Class<? extends Record> type,
        String name,
        boolean many,
        String doc,
        List<ConfigKey> keys,
        List<String> removed) {
    private static final ClassValue<ConfigSection> ALL = new ClassValue<>() {
        @Override
        protected ConfigSection computeValue(Class<?> type) {
            return described(type.asSubclass(Record.class));
        }
    };

    /** Returns the section that a record declares. */
    public static ConfigSection of(Class<? extends Record> type) {
        return ALL.get(type);
    }

    private static ConfigSection described(Class<? extends Record> type) {
        Section section = type.getAnnotation(Section.class);
        RemovedKeys former = type.getAnnotation(RemovedKeys.class);
        List<String> removed = former == null ? List.of() : List.of(former.value());
        return section == null
                ? new ConfigSection(type, "", false, "", keys(type), removed)
                : new ConfigSection(type, section.name(), section.many(), section.doc(), keys(type), removed);
    }

    private static List<ConfigKey> keys(Class<?> type) {
        List<ConfigKey> keys = new ArrayList<>();
        for (RecordComponent component : type.getRecordComponents()) {
            if (component.isAnnotationPresent(Key.class)) {
                keys.add(ConfigKey.of(component));
            } else {
                keys.addAll(keys(component.getType()));
            }
        }
        return List.copyOf(keys);
    }

    /** Returns its heading in a file. */
    public String heading() {
        return name.isEmpty() ? "the top of the file" : many ? "[" + name + ".NAME]" : "[" + name + "]";
    }

    /** Returns the names of its keys. */
    public List<String> names() {
        return keys.stream().map(ConfigKey::name).toList();
    }

    /** Returns the key that has this name in the release before, and another one in this release. */
    Optional<ConfigKey> formerly(String name) {
        return keys.stream()
                .filter(key -> key.former().filter(name::equals).isPresent())
                .findFirst();
    }

    /** Returns a key of the section. Throws for an undeclared key. */
    ConfigKey key(String key) {
        return keys.stream()
                .filter(one -> one.name().equals(key))
                .findFirst()
                .orElseThrow(() -> new IllegalArgumentException(type + " declares no key " + key));
    }

    /**
     * A key of a section, as a component of its record declares it.
     *
     * @param name its name in the section
     * @param type the type of its value
     * @param optional whether its value may be missing
     * @param defaultValue its default, in the form of the file, or null for none
     * @param example an example of its value, in the form of the file
     * @param doc its meaning
     * @param entries the record of each entry, if its value is a list of tables
     * @param former its name in the release before, if that is another one
     */
    public record ConfigKey(
            String name,
            ValueType<?> type,
            boolean optional,
            Object defaultValue,
            Object example,
            String doc,
            Optional<Class<? extends Record>> entries,
            Optional<String> former) {
        static String nameOf(RecordComponent component) {
            return component.getName().replaceAll("([A-Z])", "_$1").toLowerCase(Locale.ROOT);
        }

        private static ConfigKey of(RecordComponent component) {
            Key key = component.getAnnotation(Key.class);
            Type type = component.getGenericType();
            boolean optional = component.getType() == Optional.class;
            if (optional) {
                type = ((ParameterizedType) type).getActualTypeArguments()[0];
            }
            return new ConfigKey(
                    nameOf(component),
                    JavaTypes.valueType(type, key),
                    optional,
                    key.value().isEmpty() ? null : ValueType.written(key.value()),
                    ValueType.written(key.example()),
                    key.doc(),
                    JavaTypes.entries(type),
                    Optional.of(key.former()).filter(name -> !name.isEmpty()));
        }

        /** Returns true if every file must have the key. */
        public boolean required() {
            return !optional && defaultValue == null;
        }

        /** Returns the record of its entries as a section, if its value is a list of tables. */
        public Optional<ConfigSection> entrySection() {
            return entries.map(ConfigSection::of);
        }
    }
}
