package io.ppmr.daemon.config;

import io.ppmr.daemon.config.ConfigSection.ConfigKey;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;

/**
 * A kind of configuration files, with everything that may stand in one.
 *
 * @param word as in {@code ppmr source}
 * @param top the keys that stand before any section
 * @param sections all sections but the top
 * @param entries what stands in lists of tables
 */
public record ConfigRole(String word, ConfigSection top, List<ConfigSection> sections, List<ConfigSection> entries) {
    public ConfigRole {
        sections = List.copyOf(sections);
        entries = List.copyOf(entries);
    }

    /** Both. */
    public static List<ConfigRole> all() {
        return List.of(SourceConfig.ROLE, TargetConfig.ROLE);
    }

    /** The role of a file: a target listens. */
    public static ConfigRole of(Path file) throws ConfigException {
        return new ConfigFile(file, false).role();
    }

    public boolean isTarget() {
        return equals(TargetConfig.ROLE);
    }

    /**
     * Resolves a file of this role; throws with all its mistakes.
     *
     * @param here whether this is its node; if not, its key, its users and hosts are not looked for
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
                        top.keys().stream().map(ConfigKey::name),
                        sections.stream().map(ConfigSection::name))
                .toList();
    }

    /** Every section, the top first. */
    public List<ConfigSection> everything() {
        List<ConfigSection> all = new ArrayList<>(List.of(top));
        all.addAll(sections);
        all.addAll(entries);
        return all;
    }
}
