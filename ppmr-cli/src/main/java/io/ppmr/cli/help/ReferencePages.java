package io.ppmr.cli.help;

import io.ppmr.cli.help.CommandList.CommandGroup;
import io.ppmr.cli.help.CommandList.ListedCommand;
import io.ppmr.daemon.service.ExitCode;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Pattern;
import picocli.CommandLine;

/**
 * Makes the reference pages of the command line, {@code docs/reference/cli}, out of the model of all commands. A test
 * fails when a page is older than the commands.
 */
public final class ReferencePages {
    /** The page that lists all commands. */
    public static final String INDEX = "README.md";

    private static final String MADE =
            "<!-- Made by: ./ppmr reference docs/reference/cli. Change the commands in the code, not this page. -->\n";

    /** A page has one sentence a line. */
    private static final Pattern SENTENCE_END = Pattern.compile("(?<=[.!?]) +(?=[A-Z\"(])");

    private ReferencePages() {}

    /** All pages, by their file names. */
    public static Map<String, String> all(CommandLine program) {
        Map<String, String> pages = new TreeMap<>();
        CommandPage whole = CommandPage.of(program);
        pages.put(INDEX, index(whole));
        whole.subcommands().forEach(page -> add(pages, page));
        return pages;
    }

    private static void add(Map<String, String> pages, CommandPage page) {
        pages.put(file(page), text(page));
        page.subcommands().forEach(one -> add(pages, one));
    }

    private static String file(CommandPage page) {
        return page.fileName() + ".md";
    }

    private static String index(CommandPage program) {
        StringBuilder text = new StringBuilder("# Command line\n\n").append(MADE);
        text.append("\n`ppmr help` lists these commands, and `ppmr help COMMAND` shows the help of one.\n");
        for (CommandGroup group : CommandList.all().groups()) {
            text.append("\n## ").append(group.title()).append("\n\n| Command | Meaning |\n|---|---|\n");
            if (group.isOfLauncher()) {
                group.commands().forEach(one -> row(text, "`./ppmr " + one.name() + "`", one.text()));
            } else {
                group.commands().forEach(one -> row(text, link(program, one), one.text()));
            }
        }
        text.append("\n## Options of every command\n\n| Option | Meaning |\n|---|---|\n");
        program.arguments().forEach(one -> row(text, "`" + one.written() + "`", one.meaning()));
        text.append("\n## Exit codes\n\n| Code | Meaning |\n|---|---|\n");
        ExitCode.meanings().forEach((code, meaning) -> row(text, code, meaning));
        text.append("\n## Environment\n\n| Variable | Meaning |\n|---|---|\n");
        row(text, "`PPMR_CONFIG`", "the configuration, if `--config` is not given");
        row(text, "`PPMR_SOCKET`", "the control socket, if `--socket` is not given");
        row(text, "`PPMR_JAVA_HOME`", "the JDK to run on");
        row(text, "`PPMR_CRIU`", "the command that starts CRIU, one word a line");
        row(text, "`NO_COLOR`", "no colors, if it is set");
        text.append("\n## Which service a command asks\n\n");
        text.append("The order is: the option, the environment, the installed files.\n");
        text.append("The installed files are `/etc/ppmr/source.toml` and `/etc/ppmr/target.toml`.\n");
        text.append("A user who may not read them gets `/run/ppmr/source.sock` or `/run/ppmr/target.sock`.\n");
        text.append("`migrate` and `cancel` ask the source.\n");
        text.append("`status`, `doctor` and `history` show both services of a node that has both.\n");
        text.append("Any other command is then refused, with the two lines to type.\n");
        text.append("`source` and `target` read no file without `--config`.\n");
        return text.toString();
    }

    private static String link(CommandPage program, ListedCommand listed) {
        String name = program.name() + " " + listed.name();
        return "[" + name + "](" + name.replace(' ', '-') + ".md)";
    }

    private static void row(StringBuilder text, String first, String second) {
        text.append("| ")
                .append(first)
                .append(" | ")
                .append(second.replace("|", "\\|"))
                .append(" |\n");
    }

    private static String text(CommandPage page) {
        StringBuilder text =
                new StringBuilder("# ").append(page.name()).append("\n\n").append(MADE);
        text.append('\n')
                .append(page.header())
                .append(".\n\n```\n")
                .append(page.synopsis())
                .append("\n```\n\n");
        page.description()
                .forEach(part ->
                        text.append(SENTENCE_END.matcher(part).replaceAll("\n")).append('\n'));
        if (!page.subcommands().isEmpty()) {
            text.append("\n| Command | Meaning |\n|---|---|\n");
            page.subcommands().forEach(one -> row(text, "[" + one.name() + "](" + file(one) + ")", one.header()));
        }
        text.append("\n## Options\n\n| Option | Meaning |\n|---|---|\n");
        page.arguments().forEach(one -> row(text, "`" + one.written() + "`", one.meaning()));
        text.append("\n## Exit codes\n\n| Code | Meaning |\n|---|---|\n");
        page.exitCodes().forEach((code, meaning) -> row(text, code, meaning));
        if (!page.examples().isEmpty()) {
            text.append("\n## Examples\n\n```\n");
            page.examples().forEach(one -> text.append(one).append('\n'));
            text.append("```\n");
        }
        page.json().ifPresent(json -> {
            text.append("\n## JSON\n\nWith `--json` the command prints ");
            text.append(json.list() ? "a list of objects" : "an object").append(" with these fields.\n");
            text.append("Later versions may add fields; they do not rename or remove one without a note in the ");
            text.append("changelog.\n\n| Field | Type |\n|---|---|\n");
            JsonFields.of(json).forEach(field -> row(text, "`" + field.path() + "`", field.type()));
        });
        return text.toString();
    }
}
