package io.ppmr.cli;

import io.ppmr.checkpoint.WorkDirectories;
import io.ppmr.cli.config.SourceConfig;
import io.ppmr.cli.control.ControlAccess;
import io.ppmr.cli.control.ControlRequests;
import io.ppmr.cli.control.ControlServer;
import io.ppmr.cli.control.ControlSettings;
import io.ppmr.cli.control.SourceRequests;
import io.ppmr.cli.metrics.ServiceMeters;
import io.ppmr.cli.service.HealthTrigger;
import io.ppmr.cli.service.LifeSigns;
import io.ppmr.cli.service.MigrationEvent;
import io.ppmr.cli.service.Migrations;
import io.ppmr.cli.service.ProcessSignals;
import io.ppmr.cli.service.RefusedException;
import io.ppmr.cli.service.Supervisor;
import io.ppmr.cli.warmup.WarmUp;
import io.ppmr.source.SourceService;
import io.ppmr.source.SourceSettings;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.Callable;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/** {@code ppmr source}: the service of a compute node, until SIGTERM. */
@Command(
        name = "source",
        description = {
            "Runs the service of a compute node until SIGTERM or SIGINT. Prints \"ready\" when a migration may start.",
            "SIGUSR2 moves the configuration's trigger_job; SIGUSR1 writes its state to the log."
        },
        mixinStandardHelpOptions = true)
final class SourceCommand implements Callable<Integer> {
    private static final Logger LOG = LoggerFactory.getLogger(SourceCommand.class);
    private static final Duration MIGRATION_PATIENCE = Duration.ofSeconds(30);
    private static final Duration FAILED_MIGRATION_PATIENCE = Duration.ofSeconds(20);

    @Spec
    private CommandSpec spec;

    @Option(names = "--config", required = true, paramLabel = "FILE", description = "the source's configuration")
    private Path config;

    @Option(
            names = "--no-trigger",
            description = "leave SIGUSR2 and the health command alone; ppmr migrate alone starts migrations")
    private boolean noTrigger;

    @Override
    public Integer call() throws Exception {
        SourceConfig configuration = SourceConfig.load(config);
        boolean armed = !noTrigger
                && (configuration.triggerJob().isPresent()
                        || configuration.announced().taken());
        if (armed) {
            ProcessSignals.requireFreeTrigger(System.getenv());
        }
        ServiceRun run = new ServiceRun();
        SourceSettings settings = configuration.settings();
        MountPoint.prepare(settings.mountPoint());
        WorkDirectories.prepare(settings.workDirectory());
        Migrations migrations;
        try (ServiceMeters meters = new ServiceMeters(configuration.metrics());
                LifeSigns signs = new LifeSigns(Supervisor.of(System.getenv()));
                WarmUp warmUp = new WarmUp(
                        "source",
                        settings.workDirectory(),
                        settings.transaction().journal(),
                        settings.pool(),
                        WarmUp.LIMIT);
                SourceService service = new SourceService(
                        settings, Transports.of(configuration.transport()), configuration::notes, meters.registry())) {
            warmUp.run(configuration.warmUpMigrations());
            service.start();
            migrations = new Migrations(
                    configuration.jobs(),
                    configuration.triggerJob(),
                    new ServiceMover(service, signs),
                    configuration.announced(),
                    configuration.announced().prepare());
            serve(
                    configuration,
                    service,
                    migrations,
                    armed,
                    run,
                    control -> signs.ready(limit -> complaint(service, control, limit), () -> doing(migrations)));
            signs.stopping();
            if (!migrations.close(MIGRATION_PATIENCE)) {
                LOG.warn("the migration that is under way has not ended within {}: it fails now", MIGRATION_PATIENCE);
            }
        }
        // Without the mount it cannot go on; it still has to set the originals going.
        migrations.close(FAILED_MIGRATION_PATIENCE);
        return ExitCode.OK.number();
    }

    private void serve(
            SourceConfig configuration,
            SourceService service,
            Migrations migrations,
            boolean armed,
            ServiceRun run,
            Consumer<ControlServer> ready)
            throws IOException, InterruptedException {
        ControlSettings settings = configuration.control();
        Optional<HealthTrigger> health = configuration
                .health()
                .filter(unused -> !noTrigger)
                .map(configured -> new HealthTrigger(configured, migrations));
        Supplier<String> healthState = () -> health.map(HealthTrigger::state).orElse(null);
        ControlRequests requests =
                new SourceRequests(migrations, healthState, service::transport, service::open, service::resolve);
        ControlAccess access =
                configuration.announced().taken() ? settings.access().withJobOwners() : settings.access();
        try (ControlServer control = new ControlServer(settings.socket(), access, requests)) {
            ProcessSignals.on("USR1", () -> logState(migrations, healthState.get()));
            if (armed) {
                ProcessSignals.on("USR2", () -> trigger(migrations));
            }
            LOG.info(
                    "commands at {}; {}",
                    control.path(),
                    armed
                            ? "SIGUSR2 moves "
                                    + configuration
                                            .triggerJob()
                                            .map(job -> "job " + job)
                                            .orElse("the announced job")
                            : "SIGUSR2 moves none");
            ready.accept(control);
            spec.commandLine().getOut().println("ready");
            run.awaitEnd();
            LOG.info("told to end");
        } finally {
            health.ifPresent(HealthTrigger::close);
        }
    }

    private static Optional<String> complaint(SourceService service, ControlServer control, Duration limit)
            throws InterruptedException {
        Optional<String> complaint = service.complaint(limit);
        return complaint.isPresent() ? complaint : control.complaint(limit);
    }

    private static void trigger(Migrations migrations) {
        try {
            LOG.info(
                    "SIGUSR2: the migration of job {} starts",
                    migrations
                            .start(null, "SIGUSR2", SourceCommand::ignoreProgress)
                            .job());
        } catch (RefusedException e) {
            LOG.error("SIGUSR2: no migration starts: {}", e.getMessage());
        }
    }

    private static void ignoreProgress(MigrationEvent event) {
        LOG.debug("{}", event);
    }

    private static void logState(Migrations migrations, String health) {
        LOG.info(
                "state: {}; the last migration: {}; health command: {}",
                doing(migrations).orElse("idle"),
                migrations.state().last().map(ProgressView::summary).orElse("none"),
                health == null ? "none" : health);
    }

    private static Optional<String> doing(Migrations migrations) {
        Migrations.State state = migrations.state();
        return state.running()
                .map(one -> "migration " + one.id() + " of job " + one.job() + " is under way; "
                        + state.progress().map(Object::toString).orElse("it has just begun"));
    }
}
