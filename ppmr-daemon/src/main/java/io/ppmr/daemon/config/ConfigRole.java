package io.ppmr.daemon.config;

import io.ppmr.daemon.config.file.ConfigException;
import io.ppmr.daemon.config.file.ConfigFile;
import io.ppmr.daemon.config.file.ConfigSection;
import io.ppmr.daemon.config.file.ResolvedValues;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;

/**
 * The role of a configuration file, with its keys and sections.
 *
 * @param word its word, as in {@code ppmr source}
 * @param top the record of the keys before any section
 * @param sections the records of all other sections
 */
public record ConfigRole(String word, Class<? extends Record> top, List<Class<? extends Record>> sections) {
    public ConfigRole {
        sections = List.copyOf(sections);
    }

    /** Returns both roles. */
    public static List<ConfigRole> all() {
        return List.of(SourceConfig.ROLE, TargetConfig.ROLE);
    }

    /** Returns the role of a file: a target has {@code listen}. */
    public static ConfigRole of(Path file) throws ConfigException {
        return of(new ConfigFile(file, false));
    }

    static ConfigRole of(ConfigFile file) {
        return file.contains("listen") ? TargetConfig.ROLE : SourceConfig.ROLE;
    }

    /** Reads the top of a file of this role. Reports keys and sections that do not belong there. */
    <R extends Record> ConfigFile.FileSection<R> topOf(ConfigFile file, Class<R> keys) {
        ConfigRole other = other();
        String text = "belongs in a " + other.word() + "'s file; this is a " + word() + "'s file (it has "
                + (isTarget() ? "" : "no ") + "\"listen\"): remove it";
        Map<String, String> elsewhere = new HashMap<>();
        for (ConfigSection section : everything()) {
            String heading = section.heading();
            section.names().forEach(name -> elsewhere.put(name, "belongs in the section " + heading));
        }
        other.topNames().forEach(name -> elsewhere.put(name, text));
        return file.top(keys, topNames(), elsewhere);
    }

    /**
     * Throws if a file is clearly one of the other role, so that its reader gets the one reason and not its
     * consequences.
     */
    void requireRoleOf(ConfigFile file) throws ConfigException {
        ConfigRole other = other();
        boolean isOthers = isTarget()
                ? !file.contains("listen")
                        && other.topNames().stream()
                                .filter(name -> !topNames().contains(name))
                                .anyMatch(file::contains)
                : file.contains("listen");
        if (isOthers) {
            file.mistake(
                    0,
                    "",
                    "is a " + other.word() + "'s file (it has " + (isTarget() ? "no " : "")
                            + "\"listen\"): start it with ppmr " + other.word() + ", or name a " + word()
                            + "'s file");
            file.requireGood();
        }
    }

    private ConfigRole other() {
        return isTarget() ? SourceConfig.ROLE : TargetConfig.ROLE;
    }

    public boolean isTarget() {
        return equals(TargetConfig.ROLE);
    }

    /**
     * Resolves a file of this role. Throws with all mistakes.
     *
     * @param here whether the file is for this node; if not, its key, users and hosts are not looked up
     */
    public ResolvedValues check(Path file, boolean here) throws ConfigException {
        ConfigFile opened = new ConfigFile(file, here);
        if (isTarget()) {
            TargetConfig.read(opened);
        } else {
            SourceConfig.read(opened);
        }
        return opened.resolved();
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
