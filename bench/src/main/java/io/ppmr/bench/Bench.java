package io.ppmr.bench;

import io.ppmr.bench.report.FigureCommand;
import io.ppmr.daemon.log.ServiceLog;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.util.ServiceLoader;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/**
 * The program {@code ppmr bench}. {@code docs/results/performance.md} describes what each command measures, and how.
 */
@Command(
        name = "bench",
        description = "Measures the data path and whole migrations, beside what this machine can do at most.",
        mixinStandardHelpOptions = true,
        synopsisSubcommandLabel = "COMMAND",
        subcommands = {
            ServiceCommands.Migration.class,
            ServiceCommands.Multiplex.class,
            SweepCommand.class,
            ServiceCommands.Cold.class,
            ServiceCommands.Idle.class,
            BenchCommand.Limits.class,
            PiecesCommand.class,
            FigureCommand.class
        })
public final class Bench implements Runnable {
    private static final int FAILED = 1;

    @Spec
    private CommandSpec spec;

    public static void main(String[] arguments) {
        ServiceLog.begin(System.getenv(), "ppmr-bench");
        PrintWriter out = new PrintWriter(System.out, true, StandardCharsets.UTF_8);
        PrintWriter err = new PrintWriter(System.err, true, StandardCharsets.UTF_8);
        System.exit(execute(arguments, out, err));
    }

    /** Runs a command and returns its exit code. It is for main and for tests. */
    static int execute(String[] arguments, PrintWriter out, PrintWriter err) {
        return commandLine()
                .setOut(out)
                .setErr(err)
                .setExecutionExceptionHandler((failure, command, parsed) -> failed(failure, err))
                .execute(arguments);
    }

    /** Returns the command line with all benchmarks, also for a program that has this module only at run time. */
    public static CommandLine commandLine() {
        CommandLine bench = new CommandLine(new Bench());
        BenchCommand.addStages(bench);
        // Adds the commands of optional parts.
        ServiceLoader.load(BenchCommand.class).forEach(bench::addSubcommand);
        return bench;
    }

    @Override
    public void run() {
        throw new ParameterException(spec.commandLine(), "no command given");
    }

    private static int failed(Exception failure, PrintWriter err) {
        if (failure instanceof IOException) {
            err.println("ppmr bench: " + failure.getMessage());
        } else {
            err.println("ppmr bench: an error in the benchmark itself; please report it with what follows");
            failure.printStackTrace(err);
        }
        return FAILED;
    }
}
