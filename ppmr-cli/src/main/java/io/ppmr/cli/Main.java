package io.ppmr.cli;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.cli.config.ConfigException;
import io.ppmr.cli.doctor.DoctorCommand;
import io.ppmr.cli.history.HistoryCommand;
import io.ppmr.cli.history.ShowCommand;
import io.ppmr.cli.install.InstallCommand;
import io.ppmr.cli.install.UninstallCommand;
import io.ppmr.cli.restart.RestartCommand;
import io.ppmr.cli.slurm.SlurmRunCommand;
import io.ppmr.logging.ServiceLog;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** The program {@code ppmr}. Each command's class says what it does; {@link ExitCode} says how they end. */
@Command(
        name = "ppmr",
        description =
                "Moves the processes of a failing node to a spare one while their checkpoint is still being written.",
        mixinStandardHelpOptions = true,
        versionProvider = Main.Version.class,
        synopsisSubcommandLabel = "COMMAND",
        exitCodeListHeading = "%nExit codes:%n",
        exitCodeList = {
            "0:done; a migration has committed",
            "1:anything else went wrong; the message says what",
            "2:the command line or the configuration is wrong",
            "3:the migration was rolled back: the originals go on",
            "4:the migration, or the restart, was refused: nothing was touched",
            "5:in doubt: ranks are held for somebody who does not answer; ppmr status says whom"
        },
        subcommands = {
            SourceCommand.class,
            TargetCommand.class,
            MigrateCommand.class,
            RestartCommand.class,
            CancelCommand.class,
            ResolveCommand.class,
            StatusCommand.class,
            UnmountCommand.class,
            HistoryCommand.class,
            ShowCommand.class,
            ConfigCommand.class,
            MetricsCommand.class,
            CheckpointersCommand.class,
            DoctorCommand.class,
            InstallCommand.class,
            UninstallCommand.class,
            KeygenCommand.class,
            SlurmRunCommand.class
        })
public final class Main implements Runnable {
    @Spec
    private CommandSpec spec;

    public static void main(String[] arguments) {
        ServiceLog.begin(System.getenv(), arguments.length == 0 ? "ppmr" : "ppmr-" + arguments[0]);
        PrintWriter out = new PrintWriter(System.out, true, StandardCharsets.UTF_8);
        PrintWriter err = new PrintWriter(System.err, true, StandardCharsets.UTF_8);
        System.exit(execute(arguments, out, err));
    }

    /** Runs a command and says how it ended; for main and for tests. */
    static int execute(String[] arguments, PrintWriter out, PrintWriter err) {
        return execute(new Main(), arguments, out, err);
    }

    /** Runs a program that has commands like these, and says how it ended: exit code and messages are as ours. */
    public static int execute(Object program, String[] arguments, PrintWriter out, PrintWriter err) {
        return new CommandLine(program)
                .setOut(out)
                .setErr(err)
                .setCaseInsensitiveEnumValuesAllowed(true)
                .setParameterExceptionHandler(Main::misused)
                .setExecutionExceptionHandler((failure, command, parsed) -> failed(failure, command))
                .execute(arguments);
    }

    @Override
    public void run() {
        throw new ParameterException(spec.commandLine(), "no command given");
    }

    private static int misused(ParameterException misuse, String[] arguments) {
        PrintWriter err = misuse.getCommandLine().getErr();
        err.println("ppmr: " + misuse.getMessage() + " (see "
                + misuse.getCommandLine().getCommandSpec().qualifiedName() + " --help)");
        CommandLine.UnmatchedArgumentException.printSuggestions(misuse, err);
        return ExitCode.USAGE.number();
    }

    private static int failed(Exception failure, CommandLine command) {
        PrintWriter err = command.getErr();
        if (failure instanceof ConfigException wrong) {
            wrong.mistakes().forEach(err::println);
            return ExitCode.USAGE.number();
        }
        if (failure instanceof CommandFailure expected) {
            err.println("ppmr: " + expected.getMessage());
            return expected.exitCode().number();
        }
        if (failure instanceof IOException || failure instanceof CheckpointException) {
            err.println("ppmr: " + failure.getMessage());
            return ExitCode.FAILED.number();
        }
        if (failure instanceof InterruptedException) {
            err.println("ppmr: interrupted");
            return ExitCode.FAILED.number();
        }
        err.println("ppmr: an error in ppmr itself; please report it with what follows");
        failure.printStackTrace(err);
        return ExitCode.FAILED.number();
    }

    /** Version out of the jar's manifest, or of the build folder. */
    static final class Version implements CommandLine.IVersionProvider {
        @Override
        public String[] getVersion() {
            String version = Main.class.getPackage().getImplementationVersion();
            return new String[] {
                "ppmr " + (version == null ? "(built in place)" : version),
                "Java " + System.getProperty("java.version") + ", kernel " + System.getProperty("os.version")
            };
        }
    }
}
