package io.ppmr.daemon.control;

import io.ppmr.daemon.control.ControlRequest.Exchange;
import io.ppmr.daemon.service.Migrations;
import io.ppmr.daemon.service.MoveOptions;
import io.ppmr.linux.HostPort;
import io.ppmr.migration.RequestException;
import io.ppmr.migration.UnknownJobException;
import io.ppmr.migration.source.MigrationQueue;
import io.ppmr.transaction.operator.OpenMigration;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The requests that a source's service answers.
 *
 * @param health returns the last state of its health command, null for none, on any thread
 * @param transport describes the transport, on any thread
 * @param open lists the migrations that an operator should know of, on any thread
 * @param resolver carries out an operator's decision about one of them
 */
public record SourceRequests(
        Migrations migrations,
        Supplier<String> health,
        Supplier<String> transport,
        Supplier<List<OpenMigration>> open,
        ControlRequest.Resolver resolver) {
    private static final Logger LOG = LoggerFactory.getLogger(SourceRequests.class);
    private static final int MAX_WAITING_EVENTS = 256;
    private static final long LOOK_S = 1;
    /** Maximum number of nodes in a request: each name is looked up, which is slow. */
    private static final int MAX_TARGETS = 256;

    private static final int QUOTED_CHARACTERS = 80;
    /** The longest time in which a job may be asked to be moved: a week. */
    private static final long MAX_WITHIN_SECONDS = TimeUnit.DAYS.toSeconds(7);

    /** Returns all requests, by their names in the protocol. */
    public Map<String, ControlRequest<?>> requests() {
        return Map.of(
                ControlProtocol.MIGRATE,
                new ControlRequest<>(ControlRequest.Migrate.class, false, this::isOwner, this::migrate),
                ControlProtocol.CANCEL,
                new ControlRequest<>(ControlRequest.Cancel.class, false, this::cancel),
                ControlProtocol.RESOLVE,
                ControlRequest.resolve(resolver),
                ControlProtocol.WATCH,
                new ControlRequest<>(ControlRequest.Plain.class, true, (request, with) -> watch(with)),
                ControlProtocol.STATUS,
                ControlRequest.status(this::status));
    }

    /** Returns true if a user owns the job of the request. */
    public boolean isOwner(ControlRequest.Migrate request, String user) {
        // A job's owner may not choose a directory for the service to write to.
        return request.keep() == null && migrations.isOwnedBy(request.job(), user);
    }

    private ControlStatus status() {
        MigrationQueue.State state = migrations.state();
        return new ControlStatus(
                "source",
                state.running().isPresent(),
                state.running().map(MigrationQueue.Started::id).orElse(null),
                state.running().map(MigrationQueue.Started::job).orElse(null),
                state.progress().orElse(null),
                state.last().orElse(null),
                health.get(),
                transport.get(),
                open.get(),
                state.waiting(),
                null,
                InstalledVersion.waiting(System.getenv()));
    }

    private void migrate(ControlRequest.Migrate request, Exchange with) throws IOException, InterruptedException {
        Events events = new Events();
        try {
            List<InetSocketAddress> to = new ArrayList<>();
            for (InetSocketAddress named : targets(request)) {
                to.add(lookedUp(named));
            }
            MoveOptions options = MoveOptions.of(to, directory(request), time(request))
                    .withoutCluster(Boolean.TRUE.equals(request.withoutCluster()));
            with.send(
                    ControlProtocol.STARTED,
                    migrations.start(
                            request.job(),
                            with.controls() ? Optional.empty() : Optional.of(with.user()),
                            options,
                            "user " + with.user(),
                            events));
        } catch (UnknownJobException e) {
            with.send(ControlProtocol.UNKNOWN, e.getMessage());
            return;
        } catch (RequestException e) {
            with.send(ControlProtocol.REFUSED, e.getMessage());
            return;
        }
        if (request.waits()) {
            sendEvents(with, events);
        } else {
            migrations.unwatch(events);
        }
    }

    /** Returns the directory for the kept copy of a request. */
    static Optional<Path> directory(ControlRequest.Migrate request) throws RequestException {
        if (request.keep() == null) {
            return Optional.empty();
        }
        try {
            Path directory = Path.of(request.keep());
            if (directory.isAbsolute()) {
                return Optional.of(directory);
            }
        } catch (InvalidPathException e) {
            LOG.debug("a path that cannot be", e);
        }
        throw new RequestException(
                "'" + shortened(request.keep()) + "' is not an absolute path, so the checkpoint cannot be kept there");
    }

    /** Returns the time in which the job of a request should be moved, if it names one. */
    static Optional<Duration> time(ControlRequest.Migrate request) throws RequestException {
        Long seconds = request.withinSeconds();
        if (seconds == null) {
            return Optional.empty();
        }
        if (seconds < 1 || seconds > MAX_WITHIN_SECONDS) {
            throw new RequestException("a job cannot be moved within " + seconds + " seconds. Remedy: name 1 to "
                    + MAX_WITHIN_SECONDS + " seconds, or no time");
        }
        return Optional.of(Duration.ofSeconds(seconds));
    }

    /** Returns the nodes of a request, not looked up yet. */
    static List<InetSocketAddress> targets(ControlRequest.Migrate request) throws RequestException {
        if (request.to().size() > MAX_TARGETS) {
            throw new RequestException("a migration goes to at most " + MAX_TARGETS + " nodes: name fewer");
        }
        List<InetSocketAddress> targets = new ArrayList<>();
        for (Object node : request.to()) {
            targets.add(address(node.toString()));
        }
        return targets;
    }

    private static InetSocketAddress address(String node) throws RequestException {
        return HostPort.parse(node)
                .filter(named -> named.port() > 0)
                .map(HostPort::unresolved)
                .orElseThrow(() -> new RequestException(
                        "'" + shortened(node) + "' is not a target node. Remedy: give " + HostPort.FORM));
    }

    private static String shortened(String text) {
        return text.substring(0, Math.min(text.length(), QUOTED_CHARACTERS));
    }

    private static InetSocketAddress lookedUp(InetSocketAddress named) throws RequestException {
        InetSocketAddress address = new InetSocketAddress(named.getHostString(), named.getPort());
        if (address.isUnresolved()) {
            throw new RequestException("host '" + named.getHostString() + "' is not known on the source's node");
        }
        return address;
    }

    private void cancel(ControlRequest.Cancel request, Exchange with) throws IOException {
        try {
            String by = "user " + with.user();
            with.send(
                    ControlProtocol.CANCELLING,
                    request.id().equals(MigrationQueue.WAITING)
                            ? String.join(", ", migrations.cancelWaiting(by))
                            : migrations.cancel(request.id(), by));
        } catch (RequestException e) {
            with.send(ControlProtocol.REFUSED, e.getMessage());
        }
    }

    private void watch(Exchange with) throws IOException, InterruptedException {
        Events events = new Events();
        migrations.watch(events);
        with.send(ControlProtocol.WATCHING, true);
        sendEvents(with, events);
    }

    /** Handles a client that disconnects: the migration continues. */
    private void sendEvents(Exchange with, Events events) throws IOException, InterruptedException {
        try {
            while (with.isOpen()) {
                MigrationQueue.Event event = events.queue.poll(LOOK_S, TimeUnit.SECONDS);
                if (event instanceof MigrationQueue.Event.Going going) {
                    with.send(ControlProtocol.PROGRESS, going.progress());
                } else if (event instanceof MigrationQueue.Event.Ended ended) {
                    with.send(ControlProtocol.REPORT, ended.report());
                    return;
                } else if (event instanceof MigrationQueue.Event.Failed failed) {
                    with.send(ControlProtocol.ERROR, failed.reason());
                    return;
                }
            }
        } finally {
            migrations.unwatch(events);
        }
    }

    /** The events for a client. A slow client may miss progress, but it always receives the end. */
    private static final class Events implements Consumer<MigrationQueue.Event> {
        private final BlockingQueue<MigrationQueue.Event> queue = new LinkedBlockingQueue<>();

        @Override
        public void accept(MigrationQueue.Event event) {
            if (!(event instanceof MigrationQueue.Event.Going) || queue.size() < MAX_WAITING_EVENTS) {
                queue.add(event);
            }
        }
    }
}
