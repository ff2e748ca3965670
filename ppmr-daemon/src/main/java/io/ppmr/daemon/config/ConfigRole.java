package io.ppmr.daemon.config;

import io.ppmr.daemon.config.file.ConfigException;
import io.ppmr.daemon.config.file.ConfigFile;
import io.ppmr.daemon.config.file.ConfigSection;
import io.ppmr.daemon.config.file.ConfigSection.ConfigKey;
import io.ppmr.daemon.config.file.ResolvedValues;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;
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
        return of(new ConfigFile(file, false));
    }

    static ConfigRole of(ConfigFile file) {
        return file.says(TargetConfig.LISTEN) ? TargetConfig.ROLE : SourceConfig.ROLE;
    }

    /** The top of a file of this role; reports what stands there and does not belong there. */
    ConfigFile.Section topOf(ConfigFile file) {
        ConfigRole other = isTarget() ? SourceConfig.ROLE : TargetConfig.ROLE;
        String text = "belongs in a " + other.word() + "'s file; this is a " + word() + "'s, since it "
                + (isTarget() ? "says listen" : "does not say listen") + ": take it out";
        return file.top(
                topNames(), other.topNames().stream().distinct().collect(Collectors.toMap(name -> name, name -> text)));
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
