package io.ppmr.cli;

import io.ppmr.daemon.service.ExitCode;
import java.util.List;
import java.util.concurrent.Callable;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/** {@code ppmr help}: the help of the program or of a command. */
@Command(name = "help", description = "Shows the list of commands, or the help of a command.", helpCommand = true)
final class HelpCommand implements Callable<Integer> {
    @Spec
    private CommandSpec spec;

    @Parameters(arity = "0..*", paramLabel = "COMMAND", description = "the command, such as migrate or pod run")
    private List<String> words = List.of();

    @Override
    public Integer call() {
        CommandLine command = spec.root().commandLine();
        for (String word : words) {
            CommandLine next = command.getSubcommands().get(word);
            if (next == null) {
                String known = command.getCommandName();
                throw new ParameterException(
                        spec.commandLine(),
                        "there is no command '" + known + " " + word + "'."
                                + UsageErrors.proposal(word, command)
                                        .map(near -> " Did you mean: " + known + " " + near)
                                        .orElse(" Type " + known + " help for the list"));
            }
            command = next;
        }
        command.usage(spec.commandLine().getOut(), spec.commandLine().getColorScheme());
        return ExitCode.OK.number();
    }
}
