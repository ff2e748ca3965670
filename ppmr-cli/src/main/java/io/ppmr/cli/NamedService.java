package io.ppmr.cli;

import io.ppmr.daemon.part.ServicePart.Side;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.stream.Collectors;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.ParameterException;

/** Texts about the choice of a service, with lines that can be typed as they are. */
final class NamedService {
    private NamedService() {}

    /** A command that could mean either of two services. The user types one of its lines instead. */
    static final class AmbiguousServiceException extends ParameterException {
        private static final long serialVersionUID = 1;

        private final transient List<String> lines;

        AmbiguousServiceException(CommandSpec command, List<String> lines) {
            super(command.commandLine(), "this node has a source and a target. Type one of these:");
            this.lines = List.copyOf(lines);
        }

        List<String> lines() {
            return lines;
        }
    }

    /** Refuses a command that could mean the source or the target. */
    static AmbiguousServiceException ambiguous(CommandSpec command, InstalledServices installed) {
        return new AmbiguousServiceException(
                command,
                List.of(
                        retyped(command, "--config", installed.config(Side.SOURCE)),
                        retyped(command, "--config", installed.config(Side.TARGET))));
    }

    /**
     * Refuses a command whose service is not on this node.
     *
     * @param roles the services that can answer it, or none for the source and the target
     */
    static ParameterException missing(CommandSpec command, List<String> roles, InstalledServices installed) {
        Optional<String> only = roles.size() == 1 ? Optional.of(roles.get(0)) : Optional.empty();
        String what = only.map(one -> "no " + one).orElse("no service") + " is installed here: ";
        List<String> looked = roles.isEmpty()
                ? Arrays.stream(Side.values()).map(InstalledServices::word).toList()
                : roles;
        String places = looked.stream()
                .map(one -> installed.config(one) + " and " + installed.usualSocket(one))
                .collect(Collectors.joining(", "));
        return new ParameterException(
                command.commandLine(),
                what + places + " do not exist. Remedy: run this on "
                        + only.map(one -> "the " + one + "'s node").orElse("a node of ppmr")
                        + ", or name the service with --config FILE or --socket PATH");
    }

    /** The command as it was typed, with an option behind the command's own name. */
    static String retyped(CommandSpec command, String option, Path value) {
        List<String> typed = CliContext.of(command).arguments();
        StringBuilder line = new StringBuilder(command.root().name());
        String last = command.name();
        boolean added = false;
        for (String word : typed) {
            line.append(' ').append(quoted(word));
            if (!added && word.equals(last)) {
                line.append(' ').append(option).append(' ').append(quoted(value.toString()));
                added = true;
            }
        }
        return line.toString();
    }

    private static String quoted(String word) {
        return word.toLowerCase(Locale.ROOT).matches("[a-z0-9_./:=,@%+-]+")
                ? word
                : "'" + word.replace("'", "'\\''") + "'";
    }
}
