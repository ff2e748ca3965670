package io.ppmr.cli.config;

import java.nio.file.Path;

/**
 * How a value is written in the file and what it becomes.
 *
 * @param <T> what it becomes
 */
public interface ValueType<T> {
    /** What may be written, as it follows "must be": for messages and for the documentation. */
    String form();

    /**
     * The value of what stands in the file.
     *
     * @param value what the TOML parser made of it: String, Long, Double, Boolean, TomlArray or TomlTable
     */
    T parse(Object value, Reading reading) throws BadValueException;

    /**
     * What a value's meaning depends on beside itself.
     *
     * @param folder the file's folder, which relative paths start from
     * @param here whether the file is read on the node that it is for: then users and hosts must be known
     */
    record Reading(Path folder, boolean here) {}
}
