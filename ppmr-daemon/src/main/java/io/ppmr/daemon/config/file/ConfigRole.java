package io.ppmr.daemon.config.file;

import java.util.List;
import java.util.stream.Stream;

/**
 * The role of a configuration file, with its keys and sections. It is immutable.
 *
 * @param word its word, as in {@code ppmr source}
 * @param mark the key that only files of this role have, or empty for the role of a file without a mark
 * @param top the record of the keys before any section
 * @param sections the records of all other sections
 * @param reader reads a file of this role, and throws with all mistakes
 */
public record ConfigRole(
        String word, String mark, Class<? extends Record> top, List<Class<? extends Record>> sections, Reader reader) {
    /** Reads a file of a role. */
    @FunctionalInterface
    public interface Reader {
        /** Throws with all mistakes of the file. */
        void read(ConfigFile file) throws ConfigException;
    }

    public ConfigRole {
        sections = List.copyOf(sections);
    }

    /** Returns true if it is the role of a target. */
    public boolean isTarget() {
        return word.equals("target");
    }

    /** Returns the names at the top of the file: keys and sections. */
    public List<String> topNames() {
        return Stream.concat(
                        ConfigSection.of(top).names().stream(),
                        sections.stream()
                                .map(section -> ConfigSection.of(section).name()))
                .toList();
    }

    /** Returns all sections, the top first. */
    public List<ConfigSection> everything() {
        return Stream.concat(Stream.of(top), sections.stream())
                .map(ConfigSection::of)
                .toList();
    }
}
