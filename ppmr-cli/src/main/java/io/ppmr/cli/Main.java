package io.ppmr.cli;

import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SequenceWriter;
import com.fasterxml.jackson.databind.SerializationFeature;
import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.Checkpointer.Availability;
import io.ppmr.cli.doctor.DoctorCommand;
import io.ppmr.cli.history.MigrationHistory;
import io.ppmr.cli.install.InstallCommand;
import io.ppmr.cli.install.UninstallCommand;
import io.ppmr.daemon.SourceDaemon;
import io.ppmr.daemon.TargetDaemon;
import io.ppmr.daemon.config.CheckpointerConfig;
import io.ppmr.daemon.config.KeyFile;
import io.ppmr.daemon.config.ServiceConfig;
import io.ppmr.daemon.config.SourceConfig;
import io.ppmr.daemon.config.TargetConfig;
import io.ppmr.daemon.config.file.ConfigException;
import io.ppmr.daemon.control.ControlClient;
import io.ppmr.daemon.log.ServiceLog;
import io.ppmr.daemon.metrics.MetricsDocs;
import io.ppmr.daemon.part.InstalledParts;
import io.ppmr.daemon.service.CommandFailure;
import io.ppmr.daemon.service.ExitCode;
import io.ppmr.fuse.MemoryMount;
import io.ppmr.fuse.StaleMount;
import io.ppmr.migration.RequestException;
import io.ppmr.migration.source.MigrationQueue;
import io.ppmr.transaction.journal.MappedJournal;
import java.io.IOException;
import java.io.OutputStreamWriter;
import java.io.PrintWriter;
import java.io.Writer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import picocli.CommandLine;
import picocli.CommandLine.ArgGroup;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/**
 * The program {@code ppmr}, with those of its commands that are a few lines. Each command's description says what it
 * does; {@link ExitCode} says how they end.
 */
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
            "3:the migration was rolled back: the originals continue",
            "4:the migration, or the restart, was refused: nothing was touched",
            "5:in doubt: ranks are held and a peer is unreachable; see ppmr status"
        },
        subcommands = {
            MigrateCommand.class,
            RestartCommand.class,
            ResolveCommand.class,
            StatusCommand.class,
            ConfigCommand.class,
            DoctorCommand.class,
            InstallCommand.class,
            UninstallCommand.class
        })
public final class Main implements Runnable {
    @Spec
    private CommandSpec spec;

    public static void main(String[] arguments) {
        ServiceLog.begin(System.getenv(), arguments.length == 0 ? "ppmr" : "ppmr-" + arguments[0]);
        System.exit(execute(
                arguments,
                new OutputStreamWriter(System.out, StandardCharsets.UTF_8),
                new OutputStreamWriter(System.err, StandardCharsets.UTF_8)));
    }

    /** Runs a command and says how it ended; for main and for tests. */
    static int execute(String[] arguments, Writer out, Writer err) {
        CommandLine program = new CommandLine(new Main());
        InstalledParts.commands().forEach(program::addSubcommand);
        return execute(program, arguments, out, err);
    }

    /**
     * Runs a program that has commands like these, and says how it ended: exit code and messages are as ours, and so is
     * the filter of what it prints.
     */
    public static int execute(Object program, String[] arguments, Writer out, Writer err) {
        return execute(new CommandLine(program), arguments, out, err);
    }

    private static int execute(CommandLine program, String[] arguments, Writer out, Writer err) {
        return program.setOut(new TerminalWriter(out))
                .setErr(new TerminalWriter(err))
                .setColorScheme(CommandLine.Help.defaultColorScheme(CommandLine.Help.Ansi.OFF))
                .setCaseInsensitiveEnumValuesAllowed(true)
                .setParameterExceptionHandler(Main::misused)
                .setExecutionExceptionHandler((failure, command, parsed) -> failed(failure, command))
                .execute(arguments);
    }

    @Override
    public void run() {
        throw new ParameterException(spec.commandLine(), "no command given");
    }

    @Command(
            name = "source",
            description = {
                "Runs the service of a compute node until SIGTERM or SIGINT. Prints \"ready\" when a migration may"
                        + " start.",
                "SIGUSR2 moves the configuration's trigger_job; SIGUSR1 writes its state to the log."
            },
            mixinStandardHelpOptions = true)
    void source(
            @Option(
                            names = "--config",
                            required = true,
                            paramLabel = "FILE",
                            description = "the source's configuration")
                    Path config,
            @Option(
                            names = "--no-trigger",
                            description =
                                    "leave SIGUSR2 and the health command alone; ppmr migrate alone starts migrations")
                    boolean noTrigger)
            throws ConfigException, IOException, InterruptedException, CommandFailure {
        SourceDaemon.run(SourceConfig.load(config), !noTrigger, () -> out().println("ready"));
    }

    @Command(
            name = "target",
            description = {
                "Runs the service of a spare node until SIGTERM or SIGINT. Prints \"ready\" when a migration may come.",
                "SIGUSR1 writes its state to the log."
            },
            mixinStandardHelpOptions = true)
    void target(
            @Option(
                            names = "--config",
                            required = true,
                            paramLabel = "FILE",
                            description = "the target's configuration")
                    Path config)
            throws ConfigException, IOException, InterruptedException, CommandFailure {
        TargetDaemon.run(TargetConfig.load(config), () -> out().println("ready"));
    }

    @Command(
            name = "keygen",
            description = "Makes a key file of mode 0600, to be copied to every node. Never replaces a file.",
            mixinStandardHelpOptions = true)
    void keygen(@Parameters(paramLabel = "FILE", description = "the file to be made") Path file) throws IOException {
        KeyFile.create(file);
        out().println(file + ": made; put the same file on every node, mode 0600");
    }

    @Command(
            name = "metrics",
            description = "Prints the page of all meters, docs/reference/metrics.md.",
            mixinStandardHelpOptions = true)
    void metrics() {
        out().print(MetricsDocs.page());
        out().flush();
    }

    @Command(
            name = "checkpointers",
            description = "Shows which checkpointers can run on this node, and why the others cannot.",
            mixinStandardHelpOptions = true)
    void checkpointers(
            @Option(
                            names = "--config",
                            paramLabel = "FILE",
                            description = "ask those of this configuration instead of those that ppmr knows")
                    Path config)
            throws ConfigException {
        Map<String, Checkpointer> all =
                config == null ? CheckpointerConfig.usual(System.getenv()) : CheckpointerConfig.load(config);
        all.forEach((name, checkpointer) -> {
            Availability found = checkpointer.probe();
            out().println(String.format(
                    "%-10s %-4s %-9s %s",
                    name,
                    found.available() ? "yes" : "no",
                    checkpointer.readingMode().name().toLowerCase(Locale.ROOT),
                    found.detail() + (found.remedy().isEmpty() ? "" : "; " + found.remedy())));
        });
    }

    @Command(
            name = "cancel",
            description = {
                "Calls a migration off: it is rolled back and the originals continue. Returns when that has begun.",
                "Refused (4) when it is not under way, or when its originals are being ended already."
            },
            mixinStandardHelpOptions = true)
    void cancel(
            @Parameters(
                            paramLabel = "ID",
                            description = "the migration, by its name in ppmr status or its first characters; or "
                                    + MigrationQueue.WAITING + ": the jobs that a trigger has yet to move stay here")
                    String id,
            @ArgGroup(multiplicity = "1") SocketArgument socket)
            throws ConfigException, IOException, RequestException {
        try (ControlClient client = new ControlClient(socket.path())) {
            String cancelled = client.cancel(id);
            out().println(
                            id.equals(MigrationQueue.WAITING)
                                    ? "not moved by this trigger: " + cancelled
                                    : "migration " + cancelled + " is being rolled back");
        }
    }

    @Command(
            name = "unmount",
            description = {
                "Takes off the dead mounts of a service that was killed, and ends what hangs on them. A mount that is"
                        + " served, or that is not ppmr's, is left alone, and said to be in use.",
                "What a killed service left of migrations is settled by its next start alone."
            },
            mixinStandardHelpOptions = true)
    void unmount(
            @Option(
                            names = "--config",
                            required = true,
                            paramLabel = "FILE",
                            description = "the service's configuration")
                    Path config)
            throws ConfigException, IOException, InterruptedException {
        for (Path named : ServiceConfig.mountsOf(config)) {
            Path mountPoint = named.toAbsolutePath();
            Path parent = mountPoint.getParent();
            // The mount point itself is not looked at: on a dead mount that fails, or hangs.
            if (parent != null && Files.isDirectory(parent, LinkOption.NOFOLLOW_LINKS)) {
                boolean cleared = StaleMount.detachDead(mountPoint);
                out().println(mountPoint + (cleared ? " was a dead mount and is cleared" : " is not mounted"));
            }
        }
        // Behind the others, which tell when the service still runs.
        Optional<Path> staging = TargetConfig.stagingMountOf(config);
        if (staging.isPresent() && MemoryMount.detachDead(staging.get())) {
            out().println(staging.get() + " was the staging of a dead service and is cleared");
        }
    }

    @Command(
            name = "history",
            description = "Lists the migrations in a service's journal, also while the service runs.",
            mixinStandardHelpOptions = true)
    void history(
            @ArgGroup(multiplicity = "1") JournalOption journal,
            @Option(names = "--json", description = "write JSON") boolean json)
            throws ConfigException, IOException {
        Path file = journal.file();
        if (json) {
            ObjectMapper mapper = new ObjectMapper().configure(JsonGenerator.Feature.AUTO_CLOSE_TARGET, false);
            try (SequenceWriter all = mapper.writerWithDefaultPrettyPrinter().writeValuesAsArray(out())) {
                MigrationHistory.each(file, all::write);
            }
            out().println();
            return;
        }
        boolean[] any = {false};
        MigrationHistory.each(file, one -> {
            any[0] = true;
            out().println(one.line());
        });
        if (!any[0]) {
            out().println("no migration yet");
        }
    }

    @Command(
            name = "show",
            description = "Shows one migration of a service's journal: who asked, the plan, the steps' times and bytes,"
                    + " the decision and its reason.",
            mixinStandardHelpOptions = true)
    void show(
            @Parameters(paramLabel = "ID", description = "the migration, as in `ppmr history`") String id,
            @ArgGroup(multiplicity = "1") JournalOption journal,
            @Option(names = "--json", description = "write JSON") boolean json)
            throws ConfigException, IOException {
        Path file = journal.file();
        MigrationHistory found = MigrationHistory.find(file, id)
                .orElseThrow(() -> new IOException(
                        "the journal " + file + " knows no migration " + id + "; `ppmr history` lists them"));
        if (json) {
            printJson(found);
        } else {
            found.print(out());
        }
    }

    /** The option that names the journal that a command reads. */
    static final class JournalOption {
        @Option(names = "--journal", paramLabel = "PATH", description = "a service's journal, or the folder of it")
        private Path journal;

        @Option(names = "--config", paramLabel = "FILE", description = "the service's configuration, which names it")
        private Path config;

        private Path file() throws ConfigException {
            Path named = journal != null ? journal : ServiceConfig.journalOf(config);
            return Files.isDirectory(named) ? named.resolve(MappedJournal.FILE_NAME) : named;
        }
    }

    private void printJson(Object value) throws IOException {
        out().print(new ObjectMapper()
                .enable(SerializationFeature.INDENT_OUTPUT)
                .writeValueAsString(value));
        out().println();
    }

    private PrintWriter out() {
        return spec.commandLine().getOut();
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
        boolean refused = failure instanceof RequestException;
        if (refused || failure instanceof IOException || failure instanceof CheckpointException) {
            err.println("ppmr: " + failure.getMessage());
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
