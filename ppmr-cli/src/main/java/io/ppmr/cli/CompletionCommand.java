package io.ppmr.cli;

import io.ppmr.cli.help.ShellCompletion;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/** {@code ppmr completion}: the completion of a shell. */
@Command(
        name = "completion",
        description = {
            "Prints a script for a shell, which then completes commands and options of ppmr.",
            "The package and ppmr install put both scripts in place."
        },
        mixinStandardHelpOptions = true)
final class CompletionCommand implements Runnable {
    @Spec
    private CommandSpec spec;

    @Parameters(paramLabel = "SHELL", description = "the shell: bash or zsh")
    private ShellCompletion.Shell shell;

    @Override
    public void run() {
        spec.commandLine().getOut().print(shell.script(spec.root()));
        spec.commandLine().getOut().flush();
    }
}
