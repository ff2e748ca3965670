package io.ppmr.daemon.config.file;

import io.ppmr.protocol.control.Finding;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;

/**
 * The role of a configuration file, with its keys and sections. It is immutable.
 *
 * @param word its word, as in {@code ppmr source}
 * @param mark the key that only files of this role have, or empty for the role of a file without a mark
 * @param top the record of the keys before any section
 * @param sections the records of all other sections
 * @param reader reads a file of this role, and throws with all mistakes
 * @param check checks the node by a file of this role for {@code ppmr doctor}; empty for nodes with jobs, which it
 *     checks itself
 */
public record ConfigRole(
        String word,
        String mark,
        Class<? extends Record> top,
        List<Class<? extends Record>> sections,
        Reader reader,
        Optional<NodeFindings> check) {
    /** Checks the node of a role. */
    @FunctionalInterface
    public interface NodeFindings {
        /** Returns what it finds by the file. Blocks for some seconds at most. */
        List<Finding> by(Path file) throws ConfigException;
    }

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
