package io.ppmr.daemon;

import io.ppmr.daemon.config.SourceConfig;
import io.ppmr.daemon.control.ControlAccess;
import io.ppmr.daemon.control.ControlRequest;
import io.ppmr.daemon.control.SourceRequests;
import io.ppmr.daemon.history.ReportRequest;
import io.ppmr.daemon.jobs.JobName;
import io.ppmr.daemon.jobs.JobSources;
import io.ppmr.daemon.part.NodeJobs;
import io.ppmr.daemon.part.RunningParts;
import io.ppmr.daemon.part.ServicePart;
import io.ppmr.daemon.service.CommandFailure;
import io.ppmr.daemon.service.HealthTrigger;
import io.ppmr.daemon.service.MigrationText;
import io.ppmr.daemon.service.Migrations;
import io.ppmr.daemon.service.MovedJobs;
import io.ppmr.daemon.service.ProcessSignals;
import io.ppmr.daemon.service.ProgramCheck;
import io.ppmr.daemon.service.Watchdog;
import io.ppmr.linux.UninterruptedWait;
import io.ppmr.migration.RequestException;
import io.ppmr.migration.node.NodeGauge;
import io.ppmr.migration.node.NodeProbe;
import io.ppmr.migration.source.Job;
import io.ppmr.migration.source.MigrationQueue;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.migration.source.SourceService;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The process of a source's service. The process's main thread runs it. Queries are for any thread. */
public final class SourceDaemon implements Daemon.Service {
    private static final Logger LOG = LoggerFactory.getLogger(SourceDaemon.class);
    private static final Duration MIGRATION_PATIENCE = Duration.ofSeconds(30);
    private static final Duration FAILED_MIGRATION_PATIENCE = Duration.ofSeconds(20);

    private final SourceConfig config;
    private final boolean triggers;
    private final SourceService service;
    private final Watchdog watchdog;
    private final RunningParts parts;
    private Migrations migrations;
    private Optional<HealthTrigger> health = Optional.empty();

    private SourceDaemon(
            SourceConfig config, boolean triggers, SourceService service, RunningParts parts, Watchdog watchdog) {
        this.parts = parts;
        this.config = config;
        this.triggers = triggers;
        this.service = service;
        this.watchdog = watchdog;
    }

    /**
     * Runs a source until SIGTERM or SIGINT.
     *
     * @param triggers whether SIGUSR2 and the health command start migrations
     * @param ready called when a migration may start
     */
    public static void run(SourceConfig config, boolean triggers, Runnable ready)
            throws IOException, InterruptedException, CommandFailure {
        ProgramCheck.require(config.rootsCommands(), System.getenv());
        if (triggers && movesOnSignal(config)) {
            ProcessSignals.requireFreeTrigger(System.getenv());
        }
        ControlAccess access = config.service().access();
        Daemon.run(
                "source",
                config.service(),
                config.parts().isForUsers() ? access.withJobOwners() : access,
                (meters, transports, watchdog) -> {
                    RunningParts parts = config.parts().open(config.service().node(meters));
                    return new SourceDaemon(
                            config,
                            triggers,
                            new SourceService(
                                    config.settings(), transports, config::notes, meters, parts.surroundings()),
                            parts,
                            watchdog);
                },
                ready);
    }

    /** Reports the running migration and the last one to systemd. */
    private final class Shown implements MigrationQueue.Observer {
        @Override
        public void begun(MigrationQueue.Started migration) {
            watchdog.changed();
        }

        @Override
        public void ended(MigrationQueue.Started migration, MigrationReport report) {
            watchdog.ended(
                    "job " + migration.job() + " " + report.outcome().name().toLowerCase(Locale.ROOT));
            parts.ended(migration.id());
        }
    }

    private static boolean movesOnSignal(SourceConfig config) {
        return config.triggerJob().isPresent() || config.parts().takesJobs();
    }

    @Override
    public void start() throws IOException, InterruptedException {
        parts.prepare();
        service.keepSamples();
        service.start();
        service.queue().observe(new Shown());
        JobSources jobs = parts.jobs();
        jobs.prepare();
        migrations = new Migrations(
                config.jobs(),
                config.triggerJob(),
                service.queue(),
                jobs,
                new MovedJobs(config.service().journal())::lastMove);
        parts.serve(new ServicePart.Ready(
                ServicePart.Side.SOURCE,
                config.service().journal(),
                Optional.empty(),
                new NodeGauge(
                        new NodeProbe(Path.of("/"), 0, config.settings().pool().chunkBytes(), config.checkpointers()),
                        () -> 0),
                new NodeJobs(
                        parts.members(),
                        Optional.of((job, order) -> service.checkpoint(found(jobs, job), order)),
                        Optional.empty()),
                service.lostPeers()));
        health = config.health().filter(settings -> triggers).map(settings -> new HealthTrigger(settings, migrations));
    }

    private static Job found(JobSources jobs, JobName name) throws IOException, RequestException {
        return jobs.find(name)
                .orElseThrow(() -> new RequestException("job " + name + " no longer has pods on this node"))
                .resolve();
    }

    @Override
    public Map<String, ControlRequest<?>> requests() {
        Map<String, ControlRequest<?>> requests = new HashMap<>(new SourceRequests(
                        migrations,
                        () -> health.map(HealthTrigger::state).orElse(null),
                        () -> config.service().withChunks(service.transport()),
                        service::open,
                        service::resolve)
                .requests());
        requests.put(ReportRequest.NAME, new ReportRequest(config.service().journal()).request());
        requests.putAll(parts.requests());
        return requests;
    }

    @Override
    public String armSignals() {
        if (!triggers || !movesOnSignal(config)) {
            return "; SIGUSR2 moves none";
        }
        ProcessSignals.on("USR2", this::trigger);
        return "; SIGUSR2 moves " + config.triggerJob().map(job -> "job " + job).orElse("the announced jobs");
    }

    private void trigger() {
        try {
            LOG.info(
                    "SIGUSR2: to be moved: {}",
                    migrations.trigger("SIGUSR2", Optional.empty(), event -> LOG.debug("{}", event)));
        } catch (RequestException e) {
            LOG.error("SIGUSR2: no migration starts: {}", e.getMessage());
        }
    }

    @Override
    public Optional<String> complaint(Duration limit) throws InterruptedException {
        return service.complaint(limit);
    }

    @Override
    public Optional<String> doing() {
        MigrationQueue.State state = migrations.state();
        return state.running()
                .map(one -> "migration " + one.id() + " of job " + one.job() + " is under way; "
                        + state.progress().map(Object::toString).orElse("it has just begun"));
    }

    @Override
    public String state() {
        return "; the last migration: "
                + migrations.state().last().map(MigrationText::of).orElse("none") + "; health command: "
                + health.map(HealthTrigger::state).orElse("none");
    }

    @Override
    public void finish() throws InterruptedException {
        health.ifPresent(HealthTrigger::close);
        if (!migrations.close(MIGRATION_PATIENCE)) {
            LOG.warn("the migration that is under way has not ended within {}: it fails now", MIGRATION_PATIENCE);
        }
    }

    @Override
    public void close() throws IOException {
        health.ifPresent(HealthTrigger::close);
        parts.end();
        service.close();
        if (migrations != null) {
            // Without the mount the migration fails, and the service still must continue the originals.
            UninterruptedWait.of(() -> migrations.close(FAILED_MIGRATION_PATIENCE));
        }
    }
}
