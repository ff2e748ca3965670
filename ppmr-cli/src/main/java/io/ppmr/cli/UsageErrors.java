package io.ppmr.cli;

import io.ppmr.cli.help.CommandList;
import io.ppmr.daemon.config.file.NearestName;
import io.ppmr.daemon.service.ExitCode;
import java.io.PrintWriter;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import picocli.CommandLine;
import picocli.CommandLine.MissingParameterException;
import picocli.CommandLine.Model.ArgSpec;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Model.OptionSpec;
import picocli.CommandLine.Model.PositionalParamSpec;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.UnmatchedArgumentException;

/** Turns wrong command lines into one line that names what is wrong and what to type. */
final class UsageErrors {
    static final String NO_COMMAND = "no command is given";

    /** A wrong guess of these would do harm. */
    private static final Set<String> NEVER_PROPOSED = Set.of("uninstall", "unmount", "cancel", "resolve");

    private static final Pattern INVALID = Pattern.compile(
            "Invalid value for (?:option '([^']+)'(?: \\([^)]*\\))?|positional parameter at index \\S+ \\(([^)]*)\\)):"
                    + " (.*)",
            Pattern.DOTALL);
    private static final Pattern NO_VALUE =
            Pattern.compile("Missing required parameter for option '([^']+)' \\(([^)]*)\\)");
    private static final Pattern OPTION_AS_VALUE =
            Pattern.compile("Expected parameter for option '([^']+)' but found '(.*)'");
    private static final Pattern TWICE =
            Pattern.compile("option '([^']+)' \\(([^)]*)\\) should be specified only once");

    private UsageErrors() {}

    /** Prints what is wrong. */
    static int print(ParameterException misuse, String[] arguments) {
        CommandLine command = misuse.getCommandLine();
        PrintWriter err = command.getErr();
        String name = command.getCommandSpec().qualifiedName();
        if (NO_COMMAND.equals(misuse.getMessage())) {
            err.println(name + ": " + NO_COMMAND);
            command.usage(err, command.getColorScheme());
            return ExitCode.USAGE.number();
        }
        err.println(name + ": " + text(misuse));
        if (misuse instanceof NamedService.AmbiguousServiceException ambiguous) {
            ambiguous.lines().forEach(line -> err.println("  " + line));
        } else {
            err.println("Help: " + name + " --help");
        }
        return ExitCode.USAGE.number();
    }

    private static String text(ParameterException misuse) {
        CommandSpec command = misuse.getCommandLine().getCommandSpec();
        if (misuse instanceof UnmatchedArgumentException unmatched
                && !unmatched.getUnmatched().isEmpty()) {
            return unmatched(command, unmatched.getUnmatched().get(0));
        }
        String message = String.valueOf(misuse.getMessage());
        Matcher empty = NO_VALUE.matcher(message);
        if (empty.matches()) {
            return empty.group(1) + " needs a value: " + empty.group(1) + " " + bare(empty.group(2));
        }
        Matcher value = OPTION_AS_VALUE.matcher(message);
        if (value.matches()) {
            return value.group(1) + " needs a value, and '" + value.group(2) + "' is an option";
        }
        if (misuse instanceof MissingParameterException missing
                && !missing.getMissing().isEmpty()) {
            return missing.getMissing().stream().map(UsageErrors::missing).collect(Collectors.joining("; "));
        }
        Matcher invalid = INVALID.matcher(message);
        if (invalid.matches()) {
            String what = invalid.group(1) == null ? invalid.group(2) : invalid.group(1);
            return what + ": " + invalidValue(misuse, invalid.group(3));
        }
        Matcher twice = TWICE.matcher(message);
        if (twice.matches()) {
            return twice.group(1) + " is given twice. Remedy: give it once";
        }
        return message.startsWith("Error: ") ? message.substring("Error: ".length()) : message;
    }

    private static String invalidValue(ParameterException misuse, String reason) {
        ArgSpec argument = misuse.getArgSpec();
        if (argument != null && argument.type().isEnum() && misuse.getValue() != null) {
            String known = Arrays.stream(argument.type().getEnumConstants())
                    .map(one -> one.toString().toLowerCase(Locale.ROOT))
                    .collect(Collectors.joining(", "));
            return "'" + misuse.getValue() + "' is not one of " + known;
        }
        Matcher number = Pattern.compile("'(.*)' is not an? (?:int|long|Integer)", Pattern.DOTALL)
                .matcher(reason);
        return number.matches() ? "'" + number.group(1) + "' is not a whole number" : reason;
    }

    private static String missing(ArgSpec argument) {
        return argument instanceof OptionSpec option
                ? "the option " + option.longestName() + " " + option.paramLabel() + " is missing"
                : bare(argument.paramLabel()) + " is missing";
    }

    private static String bare(String label) {
        return label.replaceAll("[<>\\[\\].]", "");
    }

    private static String unmatched(CommandSpec command, String word) {
        String name = command.qualifiedName();
        if (word.startsWith("-") && word.length() > 1) {
            PositionalParamSpec program = programOf(command);
            if (program != null) {
                return "unknown option: " + word + ". Remedy: if it belongs to " + program.paramLabel()
                        + ", put -- before " + program.paramLabel();
            }
            List<String> options = command.options().stream()
                    .filter(option -> !option.hidden())
                    .map(OptionSpec::longestName)
                    .toList();
            return "unknown option: " + word
                    + NearestName.of(word.replaceFirst("=.*", ""), options)
                            .map(near -> ". Did you mean " + near + "?")
                            .orElse("");
        }
        if (command.subcommands().isEmpty()) {
            return "'" + word + "' is one argument too many";
        }
        return "there is no command '" + name + " " + word + "'"
                + proposal(word, command.commandLine())
                        .map(near -> ". Did you mean: " + name + " " + near)
                        .orElse(". " + name + " help lists all commands");
    }

    /** Returns the parameter for the words of another program, or null if there is none. */
    private static PositionalParamSpec programOf(CommandSpec command) {
        return command.positionalParameters().stream()
                .filter(one -> one.arity().isVariable()
                        && (one.paramLabel().equals("COMMAND")
                                || one.paramLabel().equals("PROGRAM")))
                .findFirst()
                .orElse(null);
    }

    /** The command that was probably meant by a mistyped one, if it may be proposed. */
    static Optional<String> proposal(String word, CommandLine command) {
        return NearestName.of(word, CommandList.visible(command.getCommandSpec()))
                .filter(near -> !NEVER_PROPOSED.contains(near));
    }
}
