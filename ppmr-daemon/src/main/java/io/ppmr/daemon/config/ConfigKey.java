package io.ppmr.daemon.config;

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
