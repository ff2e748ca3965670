package io.ppmr.daemon.config.file;

import java.util.ArrayList;
import java.util.List;

/**
 * A section of a configuration file, in which its keys are declared. All of that happens while the class is initialized
 * that declares them; from then on it is immutable.
 *
 * @param name as in {@code [name]}; empty for the top of the file
 * @param many whether it stands once for each of several names, as {@code [name.NAME]}
 * @param doc what it is for
 * @param keys its keys, in the order of the documentation
 * @param keysOfWhole those of the section that it is a part of
 */
public record ConfigSection(
        String name, boolean many, String doc, List<ConfigKey<?>> keys, List<ConfigKey<?>> keysOfWhole) {
    /** The top of a file, before any section, which begins with keys that are declared elsewhere. */
    public static ConfigSection top(String doc, ConfigSection first) {
        return new ConfigSection("", false, doc, new ArrayList<>(first.keys), new ArrayList<>());
    }

    /** One that stands once, as {@code [name]}. */
    public static ConfigSection once(String name, String doc) {
        return new ConfigSection(name, false, doc, new ArrayList<>(), new ArrayList<>());
    }

    /** One that stands once for each of several names, as {@code [name.NAME]}. */
    public static ConfigSection many(String name, String doc) {
        return new ConfigSection(name, true, doc, new ArrayList<>(), new ArrayList<>());
    }

    /** Some of the keys of this section, with a meaning of their own; what is declared there is this section's, too. */
    public ConfigSection part() {
        return new ConfigSection(name, many, doc, new ArrayList<>(), keys);
    }

    public <T> ConfigKey<T> required(String key, ValueType<T> type, String meaning) {
        return add(new ConfigKey<>(key, type, true, null, meaning));
    }

    public <T> ConfigKey<T> optional(String key, ValueType<T> type, String meaning) {
        return add(new ConfigKey<>(key, type, false, null, meaning));
    }

    public <T> ConfigKey<T> withDefault(String key, ValueType<T> type, Object defaultValue, String meaning) {
        return add(new ConfigKey<>(key, type, false, defaultValue, meaning));
    }

    public <T> ConfigKey<T> add(ConfigKey<T> key) {
        keys.add(key);
        keysOfWhole.add(key);
        return key;
    }

    /** Returns its heading as it is written in the file. */
    public String heading() {
        return name.isEmpty() ? "the top of the file" : many ? "[" + name + ".NAME]" : "[" + name + "]";
    }

    /**
     * A key of a configuration file: the only place where its name, form, default and meaning stand. Declared in its
     * {@link ConfigSection}.
     *
     * @param name in its section
     * @param type how it is written
     * @param required whether the file must have it
     * @param defaultValue what holds without it, as it would stand in the file; null for nothing
     * @param doc what it is for
     * @param <T> what its value becomes
     */
    public record ConfigKey<T>(String name, ValueType<T> type, boolean required, Object defaultValue, String doc) {}
}
