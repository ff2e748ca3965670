package io.ppmr.cli.config;

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
    public static final ConfigRole SOURCE =
            new ConfigRole("source", SourceKeys.TOP, SourceKeys.SECTIONS, List.of(SourceKeys.RANK_ENTRY));
    public static final ConfigRole TARGET = new ConfigRole("target", TargetKeys.TOP, TargetKeys.SECTIONS, List.of());

    /** Both. */
    public static final List<ConfigRole> ALL = List.of(SOURCE, TARGET);

    public ConfigRole {
        sections = List.copyOf(sections);
        entries = List.copyOf(entries);
    }

    /** What may stand at the top of the file: keys, and the names of sections. */
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
