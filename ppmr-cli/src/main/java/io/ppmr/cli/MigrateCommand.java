package io.ppmr.cli;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import io.ppmr.daemon.control.ControlClient;
import io.ppmr.daemon.service.ExitCode;
import io.ppmr.migration.source.MigrationProgress;
import io.ppmr.migration.source.MigrationQueue;
import io.ppmr.migration.source.MigrationReport;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.Callable;
import java.util.concurrent.atomic.AtomicReference;
import picocli.CommandLine.ArgGroup;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/** {@code ppmr migrate}: has a source's service move a job, and shows how it goes. */
@Command(
        name = "migrate",
        description =
                "Moves a job through the source's control socket. An end of this command does not end the migration.",
        mixinStandardHelpOptions = true)
final class MigrateCommand implements Callable<Integer> {
    @Spec
    private CommandSpec spec;

    @Parameters(arity = "0..1", paramLabel = "JOB", description = "the job; without it the configuration's trigger_job")
    private String job;

    @Option(
            names = "--to",
            paramLabel = "HOST:PORT",
            arity = "1..*",
            description = "to this node; several share the ranks, neighbours together (default: the spare nodes of the"
                    + " configuration, in their order)")
    private List<String> to = List.of();

    @Option(
            names = "--keep",
            paramLabel = "DIR",
            description = "keep a copy of the images in this directory of the source's node, for `ppmr restart`;"
                    + " refused for pods, which cannot be restarted from a copy yet")
    private Path keep;

    @ArgGroup(multiplicity = "1")
    private SocketArgument socket;

    @Option(
            names = "--wait",
            negatable = true,
            defaultValue = "true",
            fallbackValue = "true",
            description = "wait for its end and report (default); --no-wait returns when it has started")
    private boolean wait;

    @Option(names = "--json", paramLabel = "FILE", description = "write the report there, too")
    private Path json;

    @Option(
            names = "--patience",
            paramLabel = "SECONDS",
            defaultValue = "7200",
            description = "give up when the service says nothing for that time (default: ${DEFAULT-VALUE})")
    private long patienceSeconds;

    @Option(
            names = "--service-patience",
            paramLabel = "SECONDS",
            defaultValue = "60",
            description = "where the service ends meanwhile, wait so long for its next start"
                    + " (default: ${DEFAULT-VALUE})")
    private long serviceSeconds;

    @Override
    public Integer call() throws Exception {
        ProgressView view = new ProgressView(spec.commandLine().getOut(), ProgressView.onTerminal());
        Path path = socket.path();
        Duration patience = Duration.ofSeconds(patienceSeconds);
        AtomicReference<MigrationProgress> last = new AtomicReference<>();
        try (ControlClient client = new ControlClient(path)) {
            MigrationQueue.Started started =
                    client.start(job, to, Optional.ofNullable(keep).map(Path::toAbsolutePath), wait);
            if (!wait) {
                view.line("migration " + started.id() + " of job " + started.job() + " has started");
                return ExitCode.OK.number();
            }
            view.line("migration " + started.id() + " of job " + started.job());
            MigrationReport report;
            try {
                report = client.awaitReport(patience, progress -> {
                    last.set(progress);
                    view.show(progress);
                });
            } catch (ControlClient.ServiceGoneException e) {
                ServiceReturn after = new ServiceReturn(path, socket.configuration(), started, view);
                return after.follow(last.get(), Duration.ofSeconds(serviceSeconds), patience)
                        .number();
            }
            view.report(report);
            if (json != null) {
                new ObjectMapper().enable(SerializationFeature.INDENT_OUTPUT).writeValue(json.toFile(), report);
            }
            return ExitCode.of(report.outcome()).number();
        }
    }
}
