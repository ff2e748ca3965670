package io.ppmr.daemon.config.file;

import io.ppmr.os.config.Key;
import io.ppmr.os.config.Section;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.RecordComponent;
import java.lang.reflect.Type;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Optional;

/**
 * Describes a section of a configuration file, as the record declares it that its values become. Immutable.
 *
 * @param type the record
 * @param name as in {@code [name]}; empty for the top of the file and for entries of a list
 * @param many whether it stands once for each of several names, as {@code [name.NAME]}
 * @param doc what it is for
 * @param keys its keys, in the order of the documentation
 */
public record ConfigSection(Class<? extends Record> type, String name, boolean many, String doc, List<ConfigKey> keys) {
    private static final ClassValue<ConfigSection> ALL = new ClassValue<>() {
        @Override
        protected ConfigSection computeValue(Class<?> type) {
            return described(type.asSubclass(Record.class));
        }
    };

    /** Describes the section that a record declares. */
    public static ConfigSection of(Class<? extends Record> type) {
        return ALL.get(type);
    }

    private static ConfigSection described(Class<? extends Record> type) {
        Section section = type.getAnnotation(Section.class);
        return section == null
                ? new ConfigSection(type, "", false, "", keys(type))
                : new ConfigSection(type, section.name(), section.many(), section.doc(), keys(type));
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

    /** Returns its heading as it is written in the file. */
    public String heading() {
        return name.isEmpty() ? "the top of the file" : many ? "[" + name + ".NAME]" : "[" + name + "]";
    }

    /** Returns the names of its keys. */
    public List<String> names() {
        return keys.stream().map(ConfigKey::name).toList();
    }

    /** Returns a key of it; one that it does not have is a defect. */
    ConfigKey key(String key) {
        return keys.stream()
                .filter(one -> one.name().equals(key))
                .findFirst()
                .orElseThrow(() -> new IllegalArgumentException(type + " declares no key " + key));
    }

    /**
     * Describes a key of a section, as a component of its record declares it.
     *
     * @param name in its section
     * @param type how it is written
     * @param optional whether its value may be missing
     * @param defaultValue what holds without it, as it would stand in the file; null for nothing
     * @param example a value of it, as it would stand in the file
     * @param doc what it is for
     * @param entries the record of each entry, if its value is a list of tables
     */
    public record ConfigKey(
            String name,
            ValueType<?> type,
            boolean optional,
            Object defaultValue,
            Object example,
            String doc,
            Optional<Class<? extends Record>> entries) {
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
                    JavaTypes.entries(type));
        }

        /** Returns true if the file must have it. */
        public boolean required() {
            return !optional && defaultValue == null;
        }

        /** Returns the record of its entries as a section, if its value is a list of tables. */
        public Optional<ConfigSection> entrySection() {
            return entries.map(ConfigSection::of);
        }
    }
}
