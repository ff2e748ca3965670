package io.ppmr.daemon;

import io.ppmr.daemon.config.ServiceConfig;
import io.ppmr.daemon.config.TargetConfig;
import io.ppmr.daemon.control.ControlAccess;
import io.ppmr.daemon.control.ControlProtocol;
import io.ppmr.daemon.control.ControlRequest;
import io.ppmr.daemon.control.ControlStatus;
import io.ppmr.daemon.control.InstalledVersion;
import io.ppmr.daemon.history.ReportRequest;
import io.ppmr.daemon.part.NodeJobs;
import io.ppmr.daemon.part.RunningParts;
import io.ppmr.daemon.part.ServicePart;
import io.ppmr.daemon.service.CommandFailure;
import io.ppmr.daemon.service.MigrationText;
import io.ppmr.daemon.service.ProgramCheck;
import io.ppmr.daemon.service.Watchdog;
import io.ppmr.fuse.MemoryMount;
import io.ppmr.migration.node.NodeGauge;
import io.ppmr.migration.target.Arrival;
import io.ppmr.migration.target.TargetService;
import java.io.IOException;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** The process of a target's service. The process's main thread runs it. Queries are for any thread. */
public final class TargetDaemon implements Daemon.Service {
    private final ServiceConfig config;
    private final TargetService service;
    private final RunningParts parts;
    private final Watchdog watchdog;
    private final Optional<TargetConfig.OwnStaging> ownStaging;
    private MemoryMount staging;

    private TargetDaemon(
            ServiceConfig config,
            TargetService service,
            RunningParts parts,
            Watchdog watchdog,
            Optional<TargetConfig.OwnStaging> ownStaging) {
        this.config = config;
        this.ownStaging = ownStaging;
        this.service = service;
        this.parts = parts;
        this.watchdog = watchdog;
    }

    /** Runs a target until SIGTERM or SIGINT. Calls {@code ready} when it accepts migrations. */
    public static void run(TargetConfig config, Runnable ready)
            throws IOException, InterruptedException, CommandFailure {
        ProgramCheck.require(config.rootsCommands(), System.getenv());
        ControlAccess access = config.service().access();
        Daemon.run(
                "target",
                config.service(),
                config.parts().isForUsers() ? access.withJobOwners() : access,
                (meters, transports, watchdog) -> {
                    RunningParts parts = config.parts().open(config.service().node(meters));
                    return new TargetDaemon(
                            config.service(),
                            new TargetService(config.settings(), transports, meters, parts.surroundings()),
                            parts,
                            watchdog,
                            config.ownStaging());
                },
                ready);
    }

    @Override
    public void start() throws IOException, InterruptedException {
        parts.prepare();
        if (ownStaging.isPresent()) {
            staging = mount(ownStaging.get());
        }
        service.keepSamples();
        service.start();
        service.onChange(watchdog::changed);
        service.onEnd(parts::ended);
        parts.serve(new ServicePart.Ready(
                ServicePart.Side.TARGET,
                config.journal(),
                Optional.of(service.address()),
                new NodeGauge(service.probe(), service::freePlaces),
                new NodeJobs(parts.members(), Optional.empty(), Optional.of(service.restarts())),
                service.lostPeers()));
    }

    private static MemoryMount mount(TargetConfig.OwnStaging own) throws IOException, InterruptedException {
        try {
            return MemoryMount.mount(own.mountPoint(), own.sizeBytes());
        } catch (IOException e) {
            throw new IOException(
                    "there is no memory for staging: " + e.getMessage()
                            + ". Remedy: name a folder that no user can fill (staging.directory), or let the service"
                            + " mount (root with CAP_SYS_ADMIN)",
                    e);
        }
    }

    @Override
    public Map<String, ControlRequest<?>> requests() {
        Map<String, ControlRequest<?>> requests = new HashMap<>();
        requests.put(ControlProtocol.RESOLVE, ControlRequest.resolve(service::resolve));
        requests.put(ControlProtocol.STATUS, ControlRequest.status(this::status));
        requests.put(ReportRequest.NAME, new ReportRequest(config.journal()).request());
        requests.putAll(parts.requests());
        return requests;
    }

    private ControlStatus status() {
        List<Arrival> arrivals = service.arrivals();
        String id = arrivals.isEmpty()
                ? null
                : String.join(", ", arrivals.stream().map(Arrival::id).toList());
        return new ControlStatus(
                "target",
                id != null,
                id,
                null,
                null,
                null,
                null,
                config.withChunks(service.transport()),
                service.open(),
                List.of(),
                arrivals,
                InstalledVersion.waiting(System.getenv()));
    }

    @Override
    public String armSignals() {
        return "";
    }

    @Override
    public Optional<String> complaint(Duration limit) throws InterruptedException {
        return service.complaint(limit);
    }

    @Override
    public Optional<String> doing() {
        List<String> arrivals = service.arrivals().stream()
                .map(arrival -> MigrationText.of(arrival, arrival.bytesPerSecond()))
                .toList();
        return arrivals.isEmpty() ? Optional.empty() : Optional.of(String.join("; ", arrivals));
    }

    @Override
    public String state() {
        return "";
    }

    @Override
    public void finish() {
        // Closing the service holds or cancels the arriving migrations.
    }

    @Override
    public void close() throws IOException {
        parts.end();
        try {
            service.close();
        } finally {
            if (staging != null) {
                staging.close();
            }
        }
    }
}
