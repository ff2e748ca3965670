package io.ppmr.cli;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.cli.help.CommandList;
import io.ppmr.cli.help.ReferenceCommand;
import io.ppmr.daemon.config.file.ConfigException;
import io.ppmr.daemon.log.ServiceLog;
import io.ppmr.daemon.part.InstalledParts;
import io.ppmr.daemon.service.CommandFailure;
import io.ppmr.daemon.service.ExitCode;
import io.ppmr.daemon.service.ProgramCheck;
import io.ppmr.linux.FileFailure;
import io.ppmr.migration.RequestException;
import io.ppmr.migration.UnknownJobException;
import java.io.IOException;
import java.io.OutputStreamWriter;
import java.io.PrintWriter;
import java.io.UncheckedIOException;
import java.io.Writer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/**
 * The program {@code ppmr}. {@link CommandList} has the groups, exit codes and examples of its commands. {@link
 * ExitCode} defines the exit codes.
 */
@Command(
        name = "ppmr",
        description =
                "Moves the processes of a failing node to a spare node while their checkpoint is still being written.",
        mixinStandardHelpOptions = true,
        versionProvider = Main.Version.class,
        synopsisSubcommandLabel = "COMMAND",
        exitCodeListHeading = "%nExit codes:%n",
        footerHeading = "%nEnvironment:%n",
        footer = {
            "  PPMR_CONFIG     configuration file, if --config is not given",
            "  PPMR_SOCKET     control socket, if --socket is not given",
            "  PPMR_JAVA_HOME  JDK to run on",
            "  PPMR_CRIU       command that starts CRIU, one word a line",
            "  NO_COLOR        no colors, if it is set",
            "",
            "The help of a command: ppmr help COMMAND"
        })
public final class Main implements Runnable {
    /** The commands that are classes, in the order of the help. */
    private static final List<String> COMMANDS = List.of(
            "migrate",
            "status",
            "cancel",
            "resolve",
            "history",
            "show",
            "report",
            "restart",
            "config",
            "doctor",
            "checkpointers",
            "install",
            "uninstall",
            "install-criu",
            "held",
            "unmount",
            "completion",
            "help",
            "source",
            "target",
            "keygen",
            "metrics",
            "reference");

    /** The commands that need the model of all commands. */
    private static final List<String> OF_ALL = List.of("install", "completion", "help", "reference");

    private final CliContext context;

    @Spec
    private CommandSpec spec;

    @Mixin
    private OutputOptions output;

    private Main(CliContext context) {
        this.context = context;
    }

    public static void main(String[] arguments) {
        ServiceLog.begin(System.getenv(), arguments.length == 0 ? "ppmr" : "ppmr-" + arguments[0]);
        System.exit(execute(
                arguments,
                new OutputStreamWriter(System.out, StandardCharsets.UTF_8),
                new OutputStreamWriter(System.err, StandardCharsets.UTF_8)));
    }

    /** Runs a command and returns its exit code. It is for main and for tests. */
    public static int execute(String[] arguments, Writer out, Writer err) {
        return execute(CliContext.of(arguments), out, err);
    }

    /** Runs the command of a context. */
    static int execute(CliContext context, Writer out, Writer err) {
        return execute(program(context), context.arguments().toArray(String[]::new), out, err);
    }

    /** The program with all its commands, those of the optional parts too. */
    public static CommandLine program() {
        return program(CliContext.of());
    }

    private static CommandLine program(CliContext context) {
        CommandLine program = new CommandLine(new Main(context));
        // The model of each command needs some milliseconds, so only the model of the named command is made.
        String named = context.arguments().stream()
                .filter(word -> !word.startsWith("-"))
                .findFirst()
                .orElse("");
        if (COMMANDS.contains(named) && !OF_ALL.contains(named)) {
            program.addSubcommand(command(named));
        } else {
            addOthers(program, named);
        }
        String home = context.variable("PPMR_HOME");
        boolean sources = home == null
                || !(Files.exists(Path.of(home, "install.manifest"))
                        || Files.exists(Path.of(home, ProgramCheck.PACKAGE)));
        program.getCommandSpec().usageMessage().exitCodeList(ExitCode.meanings());
        // A value may be the name of a subcommand, as in: nodes --state off.
        program.setAllowSubcommandsAsOptionParameters(true);
        CommandList.all().describe(program, sources);
        return program;
    }

    /** Makes the named command. A table of constructors would cost as much as the command itself. */
    private static Object command(String name) {
        return switch (name) {
            case "migrate" -> new MigrateCommand();
            case "status" -> new StatusCommand();
            case "cancel" -> new CancelCommand();
            case "resolve" -> new ResolveCommand();
            case "history" -> new HistoryCommand();
            case "report" -> new ReportCommand();
            case "show" -> new ShowCommand();
            case "restart" -> new RestartCommand();
            case "config" -> new ConfigCommand();
            case "doctor" -> new DoctorCommand();
            case "checkpointers" -> new CheckpointersCommand();
            case "install" -> new InstallCommand();
            case "uninstall" -> new UninstallCommand();
            case "install-criu" -> new InstallCriuCommand();
            case "held" -> new HeldCommand();
            case "unmount" -> new UnmountCommand();
            case "source" -> new SourceCommand();
            case "target" -> new TargetCommand();
            case "keygen" -> new KeygenCommand();
            case "metrics" -> new MetricsCommand();
            case "completion" -> new CompletionCommand();
            case "help" -> new HelpCommand();
            case "reference" -> new ReferenceCommand();
            default -> throw new IllegalArgumentException(name);
        };
    }

    /** Adds the command of a part, if that is named. Otherwise adds all commands. */
    private static void addOthers(CommandLine program, String named) {
        List<Object> ofParts = InstalledParts.commands();
        Optional<Object> meant = ofParts.stream()
                .filter(one ->
                        one.getClass().getAnnotation(Command.class).name().equals(named))
                .findFirst();
        if (meant.isPresent()) {
            program.addSubcommand(meant.get());
            return;
        }
        COMMANDS.forEach(name -> program.addSubcommand(command(name)));
        ofParts.forEach(program::addSubcommand);
    }

    /**
     * Runs a program that has commands like these and returns its exit code. It has the same exit codes, messages and
     * filter of the output.
     */
    public static int execute(Object program, String[] arguments, Writer out, Writer err) {
        return execute(new CommandLine(program), arguments, out, err);
    }

    private static int execute(CommandLine program, String[] arguments, Writer out, Writer err) {
        return program.setOut(new TerminalWriter(out))
                .setErr(new TerminalWriter(err))
                .setColorScheme(CommandLine.Help.defaultColorScheme(CommandLine.Help.Ansi.OFF))
                .setCaseInsensitiveEnumValuesAllowed(true)
                .setParameterExceptionHandler(UsageErrors::print)
                .setExecutionExceptionHandler((failure, command, parsed) -> failed(failure, command))
                .execute(arguments);
    }

    CliContext context() {
        return context;
    }

    OutputOptions output() {
        return output;
    }

    @Override
    public void run() {
        throw new ParameterException(spec.commandLine(), UsageErrors.NO_COMMAND);
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
        if (failure instanceof UnknownJobException) {
            err.println("ppmr: " + failure.getMessage());
            return ExitCode.USAGE.number();
        }
        boolean refused = failure instanceof RequestException;
        if (refused
                || failure instanceof IOException
                || failure instanceof UncheckedIOException
                || failure instanceof CheckpointException) {
            err.println("ppmr: "
                    + FileFailure.describe(failure instanceof UncheckedIOException u ? u.getCause() : failure));
            return (refused ? ExitCode.REFUSED : ExitCode.FAILED).number();
        }
        if (failure instanceof InterruptedException) {
            err.println("ppmr: interrupted");
            return ExitCode.FAILED.number();
        }
        err.println("ppmr: an error in ppmr itself; please report it with what follows");
        failure.printStackTrace(err);
        return ExitCode.FAILED.number();
    }

    /** Version, commit, protocol and journal. */
    static final class Version implements CommandLine.IVersionProvider {
        @Override
        public String[] getVersion() throws IOException {
            return new String[] {
                BuildVersion.text(),
                "Java " + System.getProperty("java.version") + ", kernel " + System.getProperty("os.version")
            };
        }
    }
}
