package io.ppmr.cli.help;

import java.lang.reflect.AnnotatedElement;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.stream.Collectors;
import picocli.CommandLine;
import picocli.CommandLine.Help;
import picocli.CommandLine.Model.ArgSpec;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Model.OptionSpec;

/**
 * The content of the reference page of a command, made of its model. It is immutable.
 *
 * @param name the whole name, such as {@code ppmr pod run}
 * @param header one line
 * @param synopsis as it is typed
 * @param description sentences
 * @param arguments parameters, then options: how each is written, and what it means
 * @param exitCodes each with its meaning
 * @param examples commands
 * @param subcommands the pages below this one
 * @param json the fields of the JSON that it prints
 */
record CommandPage(
        String name,
        String header,
        String synopsis,
        List<String> description,
        List<Described> arguments,
        Map<String, String> exitCodes,
        List<String> examples,
        List<CommandPage> subcommands,
        Optional<JsonResult> json) {

    /** A parameter or an option. */
    record Described(String written, String meaning) {}

    private static final int WIDE = 1000;

    /** The page of a command, with those of its subcommands. */
    static CommandPage of(CommandLine command) {
        CommandSpec spec = command.getCommandSpec();
        List<Described> arguments = new ArrayList<>();
        spec.positionalParameters().forEach(one -> arguments.add(described(bare(one.paramLabel()), one)));
        spec.options().stream()
                .filter(option -> !option.hidden())
                .forEach(option -> arguments.add(described(written(option), option)));
        return new CommandPage(
                spec.qualifiedName(),
                String.join(" ", formatted(spec.usageMessage().header())),
                synopsis(command),
                formatted(spec.usageMessage().description()),
                arguments,
                new TreeMap<>(spec.usageMessage().exitCodeList()),
                spec.parent() == null
                        ? List.of()
                        : formatted(spec.usageMessage().footer()),
                subcommands(command),
                json(spec));
    }

    private static List<CommandPage> subcommands(CommandLine command) {
        return CommandList.visible(command.getCommandSpec()).stream()
                .map(name -> of(command.getSubcommands().get(name)))
                .toList();
    }

    private static String synopsis(CommandLine command) {
        int before = command.getUsageHelpWidth();
        command.setUsageHelpWidth(WIDE);
        Help help = new Help(command.getCommandSpec(), Help.defaultColorScheme(Help.Ansi.OFF));
        String text = help.synopsis(0).strip().replaceAll("\\s+", " ").replaceFirst("^Usage: ", "");
        command.setUsageHelpWidth(before);
        return text;
    }

    private static Described described(String written, ArgSpec argument) {
        return new Described(written, String.join(" ", formatted(argument.description())));
    }

    private static String written(OptionSpec option) {
        String names = Arrays.stream(option.names())
                .map(name -> option.negatable() ? name.replaceFirst("^--", "--[no-]") : name)
                .collect(Collectors.joining(", "));
        return option.arity().max() == 0 ? names : names + " " + bare(option.paramLabel());
    }

    private static String bare(String label) {
        return label.replaceAll("[<>]", "");
    }

    private static List<String> formatted(String[] texts) {
        return Arrays.stream(texts)
                .map(text -> text.replace("%n", " ").replace("%%", "%").strip())
                .filter(text -> !text.isEmpty())
                .toList();
    }

    private static Optional<JsonResult> json(CommandSpec spec) {
        Object user = spec.userObject();
        AnnotatedElement declared = user instanceof AnnotatedElement method ? method : user.getClass();
        return Optional.ofNullable(declared.getAnnotation(JsonResult.class));
    }

    /** The name of its file, without an ending. */
    String fileName() {
        return name.replace(' ', '-');
    }
}
