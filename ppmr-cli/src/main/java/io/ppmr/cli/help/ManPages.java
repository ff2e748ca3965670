package io.ppmr.cli.help;

import io.ppmr.daemon.config.ConfigRoles;
import io.ppmr.daemon.config.file.ConfigRole;
import io.ppmr.daemon.config.file.ConfigSection;
import io.ppmr.daemon.config.file.ConfigSection.ConfigKey;
import io.ppmr.daemon.config.file.ResolvedValues;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import picocli.CommandLine;

/** Makes manual pages, man(7): section 1 out of the model of all commands, section 5 out of the keys of both files. */
public final class ManPages {
    private ManPages() {}

    /** All pages by their paths below a directory of manual pages, such as {@code man1/ppmr-migrate.1}. */
    public static Map<String, String> all(CommandLine program) {
        Map<String, String> pages = new TreeMap<>();
        add(pages, CommandPage.of(program));
        for (ConfigRole role : ConfigRoles.all()) {
            pages.put("man5/" + configName(role) + ".5", config(role));
        }
        return pages;
    }

    private static String configName(ConfigRole role) {
        return "ppmr-" + role.word() + ".toml";
    }

    private static void add(Map<String, String> pages, CommandPage page) {
        pages.put("man1/" + page.fileName() + ".1", command(page));
        page.subcommands().forEach(one -> add(pages, one));
    }

    private static String title(String name, int section) {
        return ".TH \"" + name.toUpperCase(Locale.ROOT) + "\" \"" + section + "\" \"\" \"ppmr\" \"ppmr manual\"\n";
    }

    private static String command(CommandPage page) {
        StringBuilder text = new StringBuilder(title(page.fileName(), 1));
        text.append(".SH NAME\n").append(escaped(page.fileName())).append(" \\- ");
        text.append(escaped(page.header().isEmpty() ? "move processes between nodes" : page.header()));
        text.append("\n.SH SYNOPSIS\n").append(escaped(page.synopsis())).append('\n');
        text.append(".SH DESCRIPTION\n");
        page.description().forEach(sentence -> text.append(escaped(sentence)).append("\n.PP\n"));
        if (!page.subcommands().isEmpty()) {
            text.append(".SH COMMANDS\n");
            page.subcommands().forEach(one -> item(text, one.name(), one.header()));
        }
        text.append(".SH OPTIONS\n");
        page.arguments().forEach(one -> item(text, one.written(), one.meaning()));
        text.append(".SH EXIT STATUS\n");
        page.exitCodes().forEach((code, meaning) -> item(text, code, meaning));
        text.append(".SH ENVIRONMENT\n");
        item(text, "PPMR_CONFIG", "the configuration, if --config is not given");
        item(text, "PPMR_SOCKET", "the control socket, if --socket is not given");
        item(text, "NO_COLOR", "no colors, if it is set");
        if (!page.examples().isEmpty()) {
            text.append(".SH EXAMPLES\n.nf\n");
            page.examples().forEach(one -> text.append(escaped(one)).append('\n'));
            text.append(".fi\n");
        }
        return text.append(".SH SEE ALSO\n")
                .append("ppmr(1), ppmr\\-source.toml(5), ppmr\\-target.toml(5)\n")
                .toString();
    }

    private static String config(ConfigRole role) {
        StringBuilder text = new StringBuilder(title(configName(role), 5));
        text.append(".SH NAME\n").append(escaped(configName(role)));
        text.append(" \\- configuration of ppmr's ").append(role.word()).append('\n');
        text.append(".SH DESCRIPTION\n");
        text.append(
                escaped("The service reads this TOML file once, when it starts. ppmr config check FILE checks it."));
        text.append('\n');
        for (ConfigSection section : role.everything()) {
            section(text, section);
            for (ConfigKey key : section.keys()) {
                key.entrySection().ifPresent(entry -> {
                    text.append(".SS ")
                            .append(escaped("An entry of " + key.name()))
                            .append('\n');
                    keys(text, entry.keys());
                });
            }
        }
        return text.append(".SH SEE ALSO\nppmr(1)\n").toString();
    }

    private static void section(StringBuilder text, ConfigSection section) {
        String heading = section.name().isEmpty() ? "KEYS BEFORE ANY SECTION" : section.heading();
        text.append(".SH \"").append(escaped(heading)).append("\"\n");
        if (!section.doc().isEmpty()) {
            text.append(escaped(section.doc())).append('\n');
        }
        keys(text, section.keys());
    }

    private static void keys(StringBuilder text, List<ConfigKey> keys) {
        for (ConfigKey key : keys) {
            String fallback = key.required()
                    ? "Required"
                    : key.defaultValue() == null ? "No default" : "Default: " + ResolvedValues.text(key.defaultValue());
            item(text, key.name(), key.doc() + ".");
            text.append("It must be ").append(escaped(key.type().form())).append(". ");
            text.append(escaped(fallback)).append(". ");
            text.append(escaped("Example: " + ResolvedValues.text(key.example())))
                    .append('\n');
        }
    }

    private static void item(StringBuilder text, String term, String meaning) {
        text.append(".TP\n\\fB")
                .append(escaped(term))
                .append("\\fR\n")
                .append(escaped(meaning))
                .append('\n');
    }

    /** A text in which no character has a meaning for troff. */
    private static String escaped(String text) {
        return text.lines()
                .map(line -> line.replace("\\", "\\e").replace("-", "\\-"))
                .map(line -> line.startsWith(".") || line.startsWith("'") ? "\\&" + line : line)
                .collect(Collectors.joining("\n"));
    }
}
