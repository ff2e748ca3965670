package io.ppmr.daemon.config;

import io.ppmr.daemon.config.file.ConfigRole;
import io.ppmr.daemon.config.file.ConfigSection;
import io.ppmr.daemon.config.file.ConfigSection.ConfigKey;
import io.ppmr.daemon.config.file.ResolvedValues;
import java.util.List;

/**
 * The page of all configuration keys, {@code docs/reference/configuration.md}, made of the records that the files are
 * read into. A test fails if the page is stale.
 */
public final class ConfigDocs {
    private static final String INTRODUCTION = """
            # Configuration

            <!-- Made by: ./ppmr config docs > docs/reference/configuration.md.
            Change the records in the code, not this page. -->

            Each service reads one [TOML](https://toml.io/en/v1.0.0) file, once, when it starts.
            A file with `controller_key_file` is a controller's.
            Another one with `listen` is a target's, and any other is a source's.
            Examples are in [conf/](../../conf).

            ```
            ./ppmr config check FILE        # every mistake at once, with its line and what would be right
            ./ppmr config show FILE         # what the file means, defaults filled in, and where each value came from
            ./ppmr config example source    # a file with every key and its meaning; also: target, controller
            ```

            `check` and `show` take `--elsewhere` for a file of another node.
            Then they do not look for its key, its users and its hosts.

            Sizes have their unit, `k`, `m`, `g` or `t`, which count in 1024s, as in `"128k"`; only `0` needs none.
            Times have `ms`, `s`, `m` or `h`, as in `"10m"`.
            Both are texts in quotes, and whole numbers.
            A relative path starts at the file's own folder.
            "-" in the column of defaults means that there is none, **required** that the key must be given.
            """;

    private ConfigDocs() {}

    /** Returns the whole page. */
    public static String page() {
        StringBuilder page = new StringBuilder(INTRODUCTION);
        for (ConfigRole role : ConfigRoles.all()) {
            page.append("\n## The ").append(role.word()).append("'s file\n");
            for (ConfigSection section : role.everything()) {
                if (!common(section)) {
                    sectionWithEntries(page, section);
                }
            }
        }
        page.append("\n## In the files of sources and targets (`[metrics]` also in a controller's)\n");
        SourceConfig.ROLE.everything().stream()
                .filter(ConfigDocs::common)
                .forEach(section -> sectionWithEntries(page, section));
        return page.toString();
    }

    private static boolean common(ConfigSection section) {
        return SourceConfig.ROLE.sections().contains(section.type())
                && TargetConfig.ROLE.sections().contains(section.type());
    }

    private static void sectionWithEntries(StringBuilder page, ConfigSection section) {
        section(page, section.name().isEmpty() ? "Before any section" : '`' + section.heading() + '`', section);
        for (ConfigKey key : section.keys()) {
            String heading = section.name().isEmpty()
                    ? "`[[" + key.name() + "]]`"
                    : "An entry of `" + key.name() + "` in `" + section.heading() + '`';
            key.entrySection().ifPresent(entry -> section(page, heading, entry));
        }
    }

    private static void section(StringBuilder page, String heading, ConfigSection section) {
        page.append("\n### ").append(heading).append("\n\n");
        // A page has one sentence a line.
        page.append(section.doc().replaceAll("\\. (?=[A-Z])", ".\n")).append("\n\n");
        page.append("| Key | Must be | Default | Example | Meaning |\n|---|---|---|---|---|\n");
        for (ConfigKey key : section.keys()) {
            String fallback = key.required()
                    ? "**required**"
                    : key.defaultValue() == null ? "-" : '`' + ResolvedValues.text(key.defaultValue()) + '`';
            row(
                    page,
                    List.of(
                            '`' + key.name() + '`',
                            key.type().form(),
                            fallback,
                            '`' + ResolvedValues.text(key.example()) + '`',
                            key.doc()));
        }
    }

    private static void row(StringBuilder page, List<String> cells) {
        page.append('|');
        cells.forEach(cell -> page.append(' ').append(cell.replace("|", "\\|")).append(" |"));
        page.append('\n');
    }
}
