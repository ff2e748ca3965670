package io.ppmr.cli;

import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import picocli.CommandLine.Model.CommandSpec;

/**
 * The surroundings of one run of the program.
 *
 * @param environment its variables
 * @param root the directory that replaces {@code /} in the search for installed files
 * @param arguments as they were typed
 */
record CliContext(Map<String, String> environment, Path root, List<String> arguments) {
    CliContext {
        environment = Map.copyOf(environment);
        arguments = List.copyOf(arguments);
    }

    /** The context of this process. */
    static CliContext of(String... arguments) {
        return new CliContext(System.getenv(), Path.of("/"), List.of(arguments));
    }

    /** The context in which a command runs. */
    static CliContext of(CommandSpec command) {
        return command.root().userObject() instanceof Main main ? main.context() : of();
    }

    /** Returns a variable, or null if it is not set or is empty. */
    String variable(String name) {
        String value = environment.get(name);
        return value == null || value.isEmpty() ? null : value;
    }
}
