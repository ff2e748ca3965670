package io.ppmr.cli.control;

import com.fasterxml.jackson.databind.JsonNode;
import io.ppmr.cli.service.MigrationEvent;
import io.ppmr.cli.service.Migrations;
import io.ppmr.cli.service.RefusedException;
import io.ppmr.transaction.OpenMigration;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.Supplier;

/** What a source's service answers. */
public final class SourceRequests implements ControlRequests {
    private static final int MAX_WAITING_EVENTS = 256;
    private static final long LOOK_S = 1;

    private final Migrations migrations;
    private final Supplier<String> health;
    private final Supplier<String> transport;
    private final Supplier<List<OpenMigration>> open;
    private final ResolveRequest resolve;

    /**
     * The answers of one service.
     *
     * @param health what its health command said last, null for none; any thread
     * @param transport how the bytes travelled last, or may travel; any thread
     * @param open the migrations that an operator should know of; any thread
     * @param resolver carries out what an operator decides for one of them
     */
    public SourceRequests(
            Migrations migrations,
            Supplier<String> health,
            Supplier<String> transport,
            Supplier<List<OpenMigration>> open,
            Resolver resolver) {
        this.migrations = migrations;
        this.health = health;
        this.transport = transport;
        this.open = open;
        this.resolve = new ResolveRequest(resolver);
    }

    @Override
    public Map<String, Request> requests() {
        return Map.of(
                ControlProtocol.MIGRATE, new Request(false, this::migrate, this::ownsJob),
                ControlProtocol.CANCEL, new Request(false, this::cancel),
                ControlProtocol.RESOLVE, resolve.request(),
                ControlProtocol.WATCH, new Request(true, (request, with) -> watch(with)),
                ControlProtocol.STATUS,
                        new Request(true, (request, with) -> with.say(ControlProtocol.STATUS, status())));
    }

    private boolean ownsJob(JsonNode request, String user) {
        return migrations.isOwnedBy(request.path(ControlProtocol.JOB).asText(), user);
    }

    private ControlStatus status() {
        Migrations.State state = migrations.state();
        return new ControlStatus(
                "source",
                state.running().isPresent(),
                state.running().map(Migrations.Started::id).orElse(null),
                state.running().map(Migrations.Started::job).orElse(null),
                state.progress().orElse(null),
                state.last().orElse(null),
                health.get(),
                transport.get(),
                open.get());
    }

    private void migrate(JsonNode request, Conversation with) throws IOException, InterruptedException {
        String job = request.path(ControlProtocol.JOB).isTextual()
                ? request.path(ControlProtocol.JOB).asText()
                : null;
        Events events = new Events();
        try {
            List<InetSocketAddress> to = new ArrayList<>();
            for (JsonNode node : request.path(ControlProtocol.TO)) {
                to.add(address(node.asText()));
            }
            with.say(ControlProtocol.STARTED, migrations.start(job, to, "user " + with.user(), events));
        } catch (RefusedException e) {
            with.say(ControlProtocol.REFUSED, e.getMessage());
            return;
        }
        if (request.path(ControlProtocol.WAIT).asBoolean(true)) {
            tell(with, events);
        } else {
            migrations.unwatch(events);
        }
    }

    private static InetSocketAddress address(String node) throws RefusedException {
        int colon = node.lastIndexOf(':');
        if (colon <= 0 || !node.substring(colon + 1).matches("\\d{1,5}")) {
            throw new RefusedException("'" + node + "' is no node to move to: give HOST:PORT");
        }
        String host = node.substring(0, colon).replaceAll("^\\[|]$", "");
        InetSocketAddress address = new InetSocketAddress(host, Integer.parseInt(node.substring(colon + 1)));
        if (address.isUnresolved()) {
            throw new RefusedException("host '" + host + "' is not known on the source's node");
        }
        return address;
    }

    private void cancel(JsonNode request, Conversation with) throws IOException {
        try {
            String id = migrations.cancel(request.path(ControlProtocol.ID).asText(), "user " + with.user());
            with.say(ControlProtocol.CANCELLING, id);
        } catch (RefusedException e) {
            with.say(ControlProtocol.REFUSED, e.getMessage());
        }
    }

    private void watch(Conversation with) throws IOException, InterruptedException {
        Events events = new Events();
        migrations.watch(events);
        with.say(ControlProtocol.WATCHING, true);
        tell(with, events);
    }

    /** A client that goes away does not stop the migration. */
    private void tell(Conversation with, Events events) throws IOException, InterruptedException {
        try {
            while (with.isOpen()) {
                MigrationEvent event = events.queue.poll(LOOK_S, TimeUnit.SECONDS);
                if (event instanceof MigrationEvent.Going going) {
                    with.say(ControlProtocol.PROGRESS, going.progress());
                } else if (event instanceof MigrationEvent.Ended ended) {
                    with.say(ControlProtocol.REPORT, ended.report());
                    return;
                } else if (event instanceof MigrationEvent.Failed failed) {
                    with.say(ControlProtocol.ERROR, failed.reason());
                    return;
                }
            }
        } finally {
            migrations.unwatch(events);
        }
    }

    /** Events on their way to a client; where it is slow, it misses progress and never the end. */
    private static final class Events implements Consumer<MigrationEvent> {
        private final BlockingQueue<MigrationEvent> queue = new LinkedBlockingQueue<>();

        @Override
        public void accept(MigrationEvent event) {
            if (!(event instanceof MigrationEvent.Going) || queue.size() < MAX_WAITING_EVENTS) {
                queue.add(event);
            }
        }
    }
}
