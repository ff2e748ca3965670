package io.ppmr.cli.help;

import io.ppmr.daemon.service.ExitCode;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.EnumMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import picocli.CommandLine;
import picocli.CommandLine.Help;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Model.UsageMessageSpec;

/** The list of all commands in their groups, with exit codes and examples: {@code commands.txt}. It is immutable. */
public final class CommandList {
    private static final String FILE = "/io/ppmr/cli/commands.txt";
    private static final String OF_SOURCES = "Develop";
    private static final String OF_DEMO = "Try";
    private static final int NAME_WIDTH = 15;
    private static final Pattern MEANING = Pattern.compile("([0-9]): (.*)");
    private static final CommandList ALL = read();

    /** A group and its entries. */
    public record CommandGroup(String title, List<ListedCommand> commands) {
        public CommandGroup {
            commands = List.copyOf(commands);
        }

        /** Returns true if the launcher carries its commands out, and not this program. */
        public boolean isOfLauncher() {
            return isOfSources() || title.startsWith(OF_DEMO);
        }

        /** Returns true if only a tree of sources has its commands. */
        boolean isOfSources() {
            return title.startsWith(OF_SOURCES);
        }
    }

    /**
     * A command, or a subcommand with the name of its command before it.
     *
     * @param name its name
     * @param exitCodes its exit codes, each with its meaning, in their order
     * @param text its description
     * @param examples lines that can be typed
     */
    public record ListedCommand(String name, Map<ExitCode, String> exitCodes, String text, List<String> examples) {
        public ListedCommand {
            exitCodes = Collections.unmodifiableMap(new EnumMap<>(exitCodes));
            examples = List.copyOf(examples);
        }

        boolean isSubcommand() {
            return name.contains(" ");
        }

        /** Adds an indented line of the list: an example, or what an exit code means for this command. */
        private ListedCommand with(String line) {
            Matcher meaning = MEANING.matcher(line);
            if (!meaning.matches()) {
                return new ListedCommand(
                        name,
                        exitCodes,
                        text,
                        Stream.concat(examples.stream(), Stream.of(line)).toList());
            }
            Map<ExitCode, String> codes = new EnumMap<>(exitCodes);
            codes.put(ExitCode.numbered(Integer.parseInt(meaning.group(1))), meaning.group(2));
            return new ListedCommand(name, codes, text, examples);
        }
    }

    private final List<CommandGroup> groups;

    private CommandList(List<CommandGroup> groups) {
        this.groups = List.copyOf(groups);
    }

    /** The list of this program. */
    public static CommandList all() {
        return ALL;
    }

    public List<CommandGroup> groups() {
        return groups;
    }

    private static CommandList read() {
        try (InputStream in = CommandList.class.getResourceAsStream(FILE)) {
            return parsed(new String(in.readAllBytes(), StandardCharsets.UTF_8)
                    .lines()
                    .toList());
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static CommandList parsed(List<String> lines) {
        List<CommandGroup> groups = new ArrayList<>();
        String title = "";
        List<ListedCommand> commands = new ArrayList<>();
        for (String line : lines) {
            if (line.isBlank() || line.startsWith("#")) {
                continue;
            }
            if (line.startsWith("[")) {
                add(groups, title, commands);
                title = line.substring(1, line.length() - 1);
                commands = new ArrayList<>();
            } else if (line.startsWith(" ")) {
                commands.add(commands.remove(commands.size() - 1).with(line.strip()));
            } else {
                String[] columns = line.split(" \\| ", -1);
                commands.add(new ListedCommand(columns[0], exitCodes(columns[1]), columns[2], List.of()));
            }
        }
        add(groups, title, commands);
        return new CommandList(groups);
    }

    private static void add(List<CommandGroup> groups, String title, List<ListedCommand> commands) {
        if (!commands.isEmpty()) {
            groups.add(new CommandGroup(title, commands));
        }
    }

    private static Map<ExitCode, String> exitCodes(String numbers) {
        Map<ExitCode, String> codes = new EnumMap<>(ExitCode.class);
        for (String number : numbers.split(" ", -1)) {
            ExitCode code = ExitCode.numbered(Integer.parseInt(number));
            codes.put(code, code.meaning());
        }
        return codes;
    }

    /**
     * Sets each command's description, exit codes and examples, and the program's groups.
     *
     * @param fromSources whether the commands of a tree of sources are listed
     */
    public void describe(CommandLine program, boolean fromSources) {
        for (CommandGroup group : groups) {
            for (ListedCommand listed : group.commands()) {
                CommandLine command = find(program, listed.name());
                if (command != null) {
                    describe(command.getCommandSpec().usageMessage(), listed);
                }
            }
        }
        program.getCommandSpec().usageMessage().commandListHeading("");
        program.getHelpSectionMap()
                .put(UsageMessageSpec.SECTION_KEY_COMMAND_LIST, help -> listed(program, fromSources));
    }

    private static CommandLine find(CommandLine program, String name) {
        CommandLine found = program;
        for (String word : name.split(" ", -1)) {
            found = found == null ? null : found.getSubcommands().get(word);
        }
        return found;
    }

    private static void describe(UsageMessageSpec usage, ListedCommand listed) {
        usage.header(listed.text());
        Map<String, String> codes = new LinkedHashMap<>();
        listed.exitCodes().forEach((code, meaning) -> codes.put(String.valueOf(code.number()), meaning));
        usage.exitCodeListHeading("%nExit codes:%n");
        usage.exitCodeList(codes);
        if (!listed.examples().isEmpty()) {
            usage.footerHeading("%nExamples:%n");
            usage.footer(listed.examples().stream()
                    .map(example -> "  " + example.replace("%", "%%"))
                    .toArray(String[]::new));
        }
    }

    /** The groups as the help shows them: commands that this program has, and those of the launcher. */
    private String listed(CommandLine program, boolean fromSources) {
        Set<String> known = Set.copyOf(visible(program.getCommandSpec()));
        StringBuilder text = new StringBuilder();
        for (CommandGroup group : groups) {
            List<ListedCommand> shown = group.commands().stream()
                    .filter(one -> !one.isSubcommand())
                    .filter(one ->
                            group.isOfLauncher() ? fromSources || !group.isOfSources() : known.contains(one.name()))
                    .toList();
            if (!shown.isEmpty()) {
                text.append(String.format("%n%s:%n", group.title()));
                shown.forEach(one -> text.append(String.format("  %-" + NAME_WIDTH + "s%s%n", one.name(), one.text())));
            }
        }
        return text.toString();
    }

    /** The names of the commands that are not hidden. */
    public static List<String> visible(CommandSpec program) {
        return new Help(program).subcommands().keySet().stream().toList();
    }
}
