package io.ppmr.cli;

import io.ppmr.checkpoint.WorkDirectories;
import io.ppmr.cli.config.TargetConfig;
import io.ppmr.cli.control.ControlRequests;
import io.ppmr.cli.control.ControlServer;
import io.ppmr.cli.control.ControlSettings;
import io.ppmr.cli.control.ControlStatus;
import io.ppmr.cli.control.TargetRequests;
import io.ppmr.cli.metrics.ServiceMeters;
import io.ppmr.cli.service.LifeSigns;
import io.ppmr.cli.service.ProcessSignals;
import io.ppmr.cli.service.Supervisor;
import io.ppmr.cli.warmup.WarmUp;
import io.ppmr.target.Arrival;
import io.ppmr.target.TargetService;
import io.ppmr.target.TargetSettings;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.Callable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/** {@code ppmr target}: the service of a spare node, until SIGTERM. */
@Command(
        name = "target",
        description = {
            "Runs the service of a spare node until SIGTERM or SIGINT. Prints \"ready\" when a migration may come.",
            "SIGUSR1 writes its state to the log."
        },
        mixinStandardHelpOptions = true)
final class TargetCommand implements Callable<Integer> {
    private static final Logger LOG = LoggerFactory.getLogger(TargetCommand.class);

    @Spec
    private CommandSpec spec;

    @Option(names = "--config", required = true, paramLabel = "FILE", description = "the target's configuration")
    private Path config;

    @Override
    public Integer call() throws Exception {
        TargetConfig configuration = TargetConfig.load(config);
        TargetSettings settings = configuration.settings();
        ServiceRun run = new ServiceRun();
        MountPoint.prepare(settings.mountPoint());
        WorkDirectories.prepare(settings.workDirectory());
        try (ServiceMeters meters = new ServiceMeters(configuration.metrics());
                LifeSigns signs = new LifeSigns(Supervisor.of(System.getenv()));
                WarmUp warmUp = new WarmUp(
                        "target", settings.workDirectory(), settings.journal(), settings.pool(), WarmUp.LIMIT);
                TargetService service =
                        new TargetService(settings, Transports.of(settings.transport()), meters.registry())) {
            warmUp.run(configuration.warmUpMigrations());
            service.start();
            serve(configuration.control(), service, signs, run);
        }
        return ExitCode.OK.number();
    }

    private void serve(ControlSettings settings, TargetService service, LifeSigns signs, ServiceRun run)
            throws IOException, InterruptedException {
        ControlRequests requests = new TargetRequests(() -> status(service), service::resolve);
        try (ControlServer control = new ControlServer(settings.socket(), settings.access(), requests)) {
            ProcessSignals.on("USR1", () -> LOG.info("state: {}", doing(service).orElse("idle")));
            LOG.info("commands at {}", control.path());
            service.onChange(signs::changed);
            signs.ready(limit -> complaint(service, control, limit), () -> doing(service));
            spec.commandLine().getOut().println("ready");
            run.awaitEnd();
            LOG.info("told to end");
            signs.stopping();
        }
    }

    private static Optional<String> complaint(TargetService service, ControlServer control, Duration limit)
            throws InterruptedException {
        Optional<String> complaint = service.complaint(limit);
        return complaint.isPresent() ? complaint : control.complaint(limit);
    }

    private static Optional<String> doing(TargetService service) {
        List<Arrival> arrivals = service.arrivals();
        return arrivals.isEmpty()
                ? Optional.empty()
                : Optional.of(String.join(
                        "; ", arrivals.stream().map(ArrivalView::text).toList()));
    }

    private static ControlStatus status(TargetService service) {
        List<Arrival> arrivals = service.arrivals();
        String id = arrivals.isEmpty()
                ? null
                : String.join(", ", arrivals.stream().map(Arrival::id).toList());
        return new ControlStatus(
                "target", id != null, id, null, null, null, null, service.transport(), service.open(), arrivals);
    }
}
