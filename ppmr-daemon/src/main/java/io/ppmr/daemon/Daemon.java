package io.ppmr.daemon;

import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import io.ppmr.checkpoint.WorkDirectories;
import io.ppmr.daemon.config.ServiceConfig;
import io.ppmr.daemon.config.ServiceKeys;
import io.ppmr.daemon.control.ControlAccess;
import io.ppmr.daemon.control.ControlRequest;
import io.ppmr.daemon.control.ControlServer;
import io.ppmr.daemon.metrics.MetricsEndpoint;
import io.ppmr.daemon.service.ProcessSignals;
import io.ppmr.daemon.service.Supervisor;
import io.ppmr.daemon.service.Watchdog;
import io.ppmr.daemon.warmup.WarmUp;
import io.ppmr.linux.Folders;
import io.ppmr.linux.KernelFeatures;
import io.ppmr.linux.LibC;
import io.ppmr.migration.node.NodeSettings;
import io.ppmr.transport.TransportChoice;
import io.ppmr.transport.rdma.RdmaTransport;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CountDownLatch;
import java.util.stream.Collectors;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The process of a service, from its start until SIGTERM or SIGINT. It has the mount point and work directory, the
 * meters, the warm-up, the service itself, its control socket, and the reports to a service manager. The process's main
 * thread runs it.
 */
final class Daemon {
    private static final Logger LOG = LoggerFactory.getLogger(Daemon.class);
    private static final int FOR_OWNER_ALONE = 077;

    /** The service of a role, as the process needs it. Closed by the process, which ends the service. */
    interface Service extends AutoCloseable {
        void start() throws IOException, InterruptedException;

        /** Returns the requests of its control socket, by their names in the protocol. */
        Map<String, ControlRequest<?>> requests();

        /** Registers further signals, and describes them, as the end of a line in the log. */
        String armSignals();

        /** Returns the reason why it cannot work, if there is one. It answers within the limit or slightly later. */
        Optional<String> complaint(Duration limit) throws InterruptedException;

        /** Describes its activity, if it is active now. It is for any thread. */
        Optional<String> doing();

        /** Describes the rest of its state, as the end of a line in the log. It is for any thread. */
        String state();

        /** Prepares for the end of the process: starts nothing, and waits for running work. */
        void finish() throws InterruptedException;

        @Override
        void close() throws IOException;
    }

    /** Makes the service, in which no thread runs yet. */
    interface Opening {
        Service open(MeterRegistry meters, TransportChoice transports, Watchdog watchdog) throws IOException;
    }

    private Daemon() {}

    /**
     * Runs a service.
     *
     * @param role the role, as in {@code ppmr source}
     * @param access the access rights to its control socket
     * @param ready called when it is ready
     */
    static void run(String role, ServiceConfig config, ControlAccess access, Opening opening, Runnable ready)
            throws IOException, InterruptedException {
        // The units set this umask, too. Folders that users pass through get explicit modes (Folders).
        LibC.CALLS.umask(FOR_OWNER_ALONE);
        warnOfNameEncoding();
        logMissingFeatures(KernelFeatures.here());
        config.chunkChoice().ifPresent(choice -> LOG.info("pool: {}", choice));
        // From now on SIGTERM and SIGINT end the wait below instead of the JVM.
        CountDownLatch end = new CountDownLatch(1);
        ProcessSignals.on("TERM", end::countDown);
        ProcessSignals.on("INT", end::countDown);
        NodeSettings node = config.keys().node();
        ServiceKeys.TransportKeys transport = config.keys().transport();
        prepareMountPoint(node.mount().toAbsolutePath());
        WorkDirectories.prepare(node.workDirectory());
        MeterRegistry meters = config.metrics().isPresent() ? MetricsEndpoint.registry() : new SimpleMeterRegistry();
        try (MetricsEndpoint shown = MetricsEndpoint.of(config.metrics(), meters);
                Watchdog watchdog = new Watchdog(Supervisor.of(System.getenv()));
                WarmUp warmUp = new WarmUp(
                        role,
                        node.workDirectory(),
                        config.journal(),
                        config.pool(),
                        WarmUp.LIMIT,
                        config.keys().encryption());
                Service service = opening.open(
                        meters,
                        new TransportChoice(
                                transport.transport(), transport.transportMode(), RdmaTransport::load, config.rails()),
                        watchdog)) {
            warmUp.run(config.keys().warmUpMigrations());
            service.start();
            try (ControlServer control = new ControlServer(config.controlSocket(), access, service.requests())) {
                ProcessSignals.on(
                        "USR1", () -> LOG.info("state: {}{}", service.doing().orElse("idle"), service.state()));
                LOG.info("commands at {}{}", control.path(), service.armSignals());
                watchdog.ready(limit -> complaint(service, control, limit), service::doing);
                ready.run();
                end.await();
                LOG.info("received a signal to end");
                watchdog.stopping();
            }
            service.finish();
        }
    }

    /** Warns of a locale in which the JVM cannot open files whose names have other characters than ASCII. */
    private static void warnOfNameEncoding() {
        String names = System.getProperty("sun.jnu.encoding");
        if (!names.equals(StandardCharsets.UTF_8.name())) {
            LOG.warn(
                    "names of files are {} here, so that a job whose programs have names with other characters is not"
                            + " moved. Remedy: start the service by ppmr, with LC_ALL=C.UTF-8 or another UTF-8 locale"
                            + " that this node has (locale -a)",
                    names);
        }
    }

    /** Logs once the features that this kernel lacks, before anything depends on them. */
    private static void logMissingFeatures(KernelFeatures kernel) {
        if (!kernel.missing().isEmpty()) {
            LOG.info(
                    "Linux {} has no {}: what needs them is done the older way, or refused (ppmr doctor shows which)",
                    kernel.release(),
                    kernel.missing().stream().map(KernelFeatures.Feature::label).collect(Collectors.joining(", ")));
        }
    }

    /** Creates the directory if it is missing. Does not read an existing one, which may be a dead mount. */
    private static void prepareMountPoint(Path mountPoint) throws IOException {
        if (mountPoint.getParent() != null) {
            Folders.create(mountPoint.getParent(), Folders.PASSABLE);
        }
        try {
            Files.createDirectory(mountPoint);
        } catch (FileAlreadyExistsException e) {
            // The usual case. Mounting reports any problem with it.
            LOG.debug("the mount point {} is there", mountPoint, e);
        }
    }

    private static Optional<String> complaint(Service service, ControlServer control, Duration limit)
            throws InterruptedException {
        Optional<String> complaint = service.complaint(limit);
        return complaint.isPresent() ? complaint : control.complaint(limit);
    }
}
