package io.ppmr.cli;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import io.ppmr.cli.help.JsonResult;
import io.ppmr.daemon.control.ControlClient;
import io.ppmr.daemon.control.ControlRequest;
import io.ppmr.daemon.part.ServicePart.Side;
import io.ppmr.daemon.service.ExitCode;
import io.ppmr.migration.source.MigrationProgress;
import io.ppmr.migration.source.MigrationQueue;
import io.ppmr.migration.source.MigrationReport;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.Callable;
import java.util.concurrent.atomic.AtomicReference;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/** {@code ppmr migrate}: requests the move of a job from a source's service, and shows its progress. */
@JsonResult(MigrationReport.class)
@Command(
        name = "migrate",
        description = {
            "Has the source's service move a job to another node, and shows the progress.",
            "If this command ends early, the migration continues."
        },
        mixinStandardHelpOptions = true)
final class MigrateCommand implements Callable<Integer> {
    @Spec
    private CommandSpec spec;

    @Parameters(arity = "0..1", paramLabel = "JOB", description = "the job (default: trigger_job of the configuration)")
    private String job;

    @Option(
            names = "--to",
            paramLabel = "HOST:PORT",
            description = "a node to move to; give the option once for each node, and they share the ranks (default:"
                    + " the spare nodes of the configuration)")
    private List<String> to = List.of();

    @Option(
            names = "--keep",
            paramLabel = "DIR",
            description = "keep a checkpoint in this directory of the source's node, for ppmr restart; not for pods")
    private Path keep;

    @Option(
            names = "--within",
            paramLabel = "TIME",
            converter = DurationConverter.class,
            description = "the time in which the job should be moved because its node fails, such as 90s; memory is"
                    + " copied while the job computes only as far as this time allows")
    private Duration within;

    @Option(
            names = "--without-cluster",
            description = "move pods of a job over several nodes that has checkpoints even if no controller answers;"
                    + " the job is not checkpointed or restarted until a controller has noted it; needs one --to")
    private boolean withoutCluster;

    @Mixin
    private SocketArgument socket;

    @Option(
            names = "--wait",
            negatable = true,
            defaultValue = "true",
            fallbackValue = "true",
            description = "wait for the end of the migration (default); --no-wait returns when it has started")
    private boolean wait;

    @Option(names = "--json", description = "print the result as JSON; with --no-wait: id and job")
    private boolean json;

    @Option(names = "--report", paramLabel = "FILE", description = "write the result as JSON to a file, too")
    private Path reportFile;

    @Option(
            names = "--patience",
            paramLabel = "TIME",
            defaultValue = "2h",
            converter = DurationConverter.class,
            description = "stop waiting if the service sends nothing for that time (default: ${DEFAULT-VALUE})")
    private Duration patience;

    @Option(
            names = "--service-patience",
            paramLabel = "TIME",
            defaultValue = "60s",
            converter = DurationConverter.class,
            description = "if the service ends during the migration, wait that long for its next start"
                    + " (default: ${DEFAULT-VALUE})")
    private Duration servicePatience;

    @Override
    public Integer call() throws Exception {
        ProgressView view = OutputOptions.progress(spec);
        Path path = socket.path(Side.SOURCE);
        AtomicReference<MigrationProgress> last = new AtomicReference<>();
        try (ControlClient client = new ControlClient(path)) {
            MigrationQueue.Started started = client.start(new ControlRequest.Migrate(
                    job,
                    to,
                    Optional.ofNullable(keep)
                            .map(Path::toAbsolutePath)
                            .map(Path::toString)
                            .orElse(null),
                    Optional.ofNullable(within).map(Duration::toSeconds).orElse(null),
                    wait,
                    withoutCluster ? Boolean.TRUE : null));
            if (!wait) {
                if (json) {
                    JsonText.print(spec.commandLine().getOut(), started);
                } else {
                    view.result("migration " + started.id() + " of job " + started.job() + " has started");
                }
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
                return after.follow(last.get(), servicePatience, patience).number();
            }
            if (json) {
                view.endLine();
                JsonText.print(spec.commandLine().getOut(), report);
            } else {
                view.report(report);
            }
            if (reportFile != null) {
                new ObjectMapper()
                        .enable(SerializationFeature.INDENT_OUTPUT)
                        .writeValue(Files.newOutputStream(reportFile), report);
            }
            return ExitCode.of(report.outcome()).number();
        }
    }
}
