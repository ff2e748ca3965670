package io.ppmr.cli;

import java.io.PrintWriter;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ScopeType;

/** The options about output that every command has. */
final class OutputOptions {
    @Option(
            names = {"-q", "--quiet"},
            scope = ScopeType.INHERIT,
            description = "print results and errors only, no progress and no notes")
    private boolean quiet;

    @Option(
            names = "--no-color",
            scope = ScopeType.INHERIT,
            description = "print no colors (also if NO_COLOR is set, or TERM is dumb)")
    private boolean noColor;

    @Option(names = "--no-progress", scope = ScopeType.INHERIT, description = "print no progress of migrations")
    private boolean noProgress;

    /** The options of the program that a command belongs to. */
    private static OutputOptions of(CommandSpec command) {
        return command.root().userObject() instanceof Main main ? main.output() : new OutputOptions();
    }

    /** Makes the view of a migration's progress: results on standard output, the rest on standard error. */
    static ProgressView progress(CommandSpec command) {
        OutputOptions options = of(command);
        PrintWriter out = command.commandLine().getOut();
        PrintWriter err = command.commandLine().getErr();
        ProgressView.Style style = options.quiet || options.noProgress
                ? ProgressView.Style.NONE
                : Terminal.isTerminal(Terminal.ERR)
                                && !Terminal.isDumb(CliContext.of(command).environment())
                        ? ProgressView.Style.REDRAWN
                        : ProgressView.Style.LINES;
        return new ProgressView(out, err, style, !options.quiet);
    }

    /** Returns true if standard output may have colors. */
    static boolean hasColors(CommandSpec command) {
        CliContext context = CliContext.of(command);
        return !of(command).noColor
                && context.variable("NO_COLOR") == null
                && !Terminal.isDumb(context.environment())
                && Terminal.isTerminal(Terminal.OUT);
    }

    /** Prints a note for people on standard error. Prints nothing with {@code --quiet}. */
    static void note(CommandSpec command, String text) {
        if (!of(command).quiet) {
            command.commandLine().getErr().println(text);
            command.commandLine().getErr().flush();
        }
    }
}
