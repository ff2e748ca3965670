package io.ppmr.cli.control;

import com.fasterxml.jackson.databind.JsonNode;
import io.ppmr.cli.service.MigrationEvent;
import io.ppmr.cli.service.Migrations;
import io.ppmr.cli.service.RefusedException;
import java.io.IOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import jdk.net.ExtendedSocketOptions;
import jdk.net.UnixDomainPrincipal;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The source's control socket. Who may use it: root and the service's own user, by the socket's mode 0600 and by
 * SO_PEERCRED of unix(7). Where users announce jobs the mode is 0666, and a user may have a job of their own moved. One
 * thread accepts, one serves each connection, for one request; at most {@value #MOST} at once.
 */
public final class ControlServer implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(ControlServer.class);
    static final int MOST = 16;
    private static final Duration REQUEST_LIMIT = Duration.ofSeconds(5);
    private static final Duration WRITE_LIMIT = Duration.ofSeconds(5);
    private static final int MAX_WAITING_EVENTS = 256;
    private static final int CLOSE_LIMIT_MS = 2000;
    private static final long LOOK_S = 1;

    private final Path socket;
    private final Migrations migrations;
    private final String ownUser;
    private final ControlProtocol protocol = new ControlProtocol();
    private final ServerSocketChannel server;
    private final Thread acceptor;
    private final Set<Thread> serving = ConcurrentHashMap.newKeySet();

    /** Binds the socket; throws if another service answers there. */
    public ControlServer(Path socket, Migrations migrations) throws IOException {
        this.socket = socket;
        this.migrations = migrations;
        clearStale(socket);
        Files.createDirectories(socket.toAbsolutePath().getParent());
        server = ServerSocketChannel.open(StandardProtocolFamily.UNIX);
        try {
            server.bind(UnixDomainSocketAddress.of(socket));
            String mode = migrations.servesUsers() ? "rw-rw-rw-" : "rw-------";
            Files.setPosixFilePermissions(socket, PosixFilePermissions.fromString(mode));
            ownUser = Files.getOwner(socket).getName();
        } catch (IOException e) {
            server.close();
            throw new IOException(
                    "control socket " + socket + " cannot be made (" + e.getMessage()
                            + "): name another control_socket, of at most 100 characters",
                    e);
        }
        acceptor = new Thread(this::accept, "control");
        acceptor.setDaemon(true);
        acceptor.start();
    }

    /** Where it is. */
    public Path path() {
        return socket;
    }

    private static void clearStale(Path socket) throws IOException {
        if (!Files.exists(socket)) {
            return;
        }
        try (SocketChannel probe = SocketChannel.open(UnixDomainSocketAddress.of(socket))) {
            throw new IOException("control socket " + probe.getRemoteAddress()
                    + " belongs to a service that runs: end it, or name another control_socket");
        } catch (java.net.ConnectException e) {
            LOG.info("control socket {} of an earlier service is taken away: {}", socket, e.getMessage());
            Files.delete(socket);
        }
    }

    private void accept() {
        while (true) {
            try {
                SocketChannel channel = server.accept();
                if (serving.size() >= MOST) {
                    LOG.warn("control socket: more than {} connections at once; one is turned away", MOST);
                    channel.close();
                    continue;
                }
                Thread thread = new Thread(() -> serve(channel), "control-connection");
                thread.setDaemon(true);
                serving.add(thread);
                thread.start();
            } catch (ClosedChannelException e) {
                LOG.debug("control socket closed", e);
                return;
            } catch (IOException e) {
                LOG.error("control socket {} accepts no more: {}", socket, e.getMessage());
                return;
            }
        }
    }

    private void serve(SocketChannel channel) {
        try (channel;
                LineChannel lines = new LineChannel(channel)) {
            UnixDomainPrincipal peer = channel.getOption(ExtendedSocketOptions.SO_PEERCRED);
            String user = peer.user().getName();
            boolean trusted = user.equals("root") || user.equals("0") || user.equals(ownUser);
            if (!trusted && !migrations.servesUsers()) {
                turnAway(lines, user);
                return;
            }
            answer(lines, lines.readLine(REQUEST_LIMIT), trusted ? null : user);
        } catch (IOException e) {
            LOG.info("control connection: {}", e.getMessage());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } finally {
            serving.remove(Thread.currentThread());
        }
    }

    private void turnAway(LineChannel lines, String user) throws IOException {
        LOG.warn("control socket: user {} is turned away", user);
        say(lines, ControlProtocol.ERROR, "user " + user + " may not control this service: become root");
    }

    /** @param stranger the user who asks, if it is not one who may control the service */
    private void answer(LineChannel lines, String line, String stranger) throws IOException, InterruptedException {
        JsonNode request;
        try {
            request = protocol.parse(line);
        } catch (IOException e) {
            say(lines, ControlProtocol.ERROR, e.getMessage());
            return;
        }
        boolean ownJob = request.path(ControlProtocol.REQUEST).asText().equals(ControlProtocol.MIGRATE)
                && migrations.isOwnedBy(request.path(ControlProtocol.JOB).asText(), stranger);
        if (stranger != null && !ownJob) {
            turnAway(lines, stranger);
            return;
        }
        switch (request.path(ControlProtocol.REQUEST).asText()) {
            case ControlProtocol.MIGRATE -> migrate(lines, request);
            case ControlProtocol.WATCH -> watch(lines);
            case ControlProtocol.STATUS ->
                say(
                        lines,
                        ControlProtocol.STATUS,
                        new ControlStatus(
                                migrations.running().isPresent(),
                                migrations.running().orElse(null),
                                migrations.progress().orElse(null)));
            default ->
                say(
                        lines,
                        ControlProtocol.ERROR,
                        "unknown request: " + line.substring(0, Math.min(line.length(), 80))
                                + " (known: migrate, status, watch)");
        }
    }

    private void migrate(LineChannel lines, JsonNode request) throws IOException, InterruptedException {
        String job = request.path(ControlProtocol.JOB).isTextual()
                ? request.path(ControlProtocol.JOB).asText()
                : null;
        Events events = new Events();
        try {
            say(lines, ControlProtocol.STARTED, migrations.start(job, events));
        } catch (RefusedException e) {
            say(lines, ControlProtocol.REFUSED, e.getMessage());
            return;
        }
        if (request.path(ControlProtocol.WAIT).asBoolean(true)) {
            tell(lines, events);
        } else {
            migrations.unwatch(events);
        }
    }

    private void watch(LineChannel lines) throws IOException, InterruptedException {
        Events events = new Events();
        migrations.watch(events);
        say(lines, ControlProtocol.WATCHING, true);
        tell(lines, events);
    }

    /** A client that goes away does not stop the migration. */
    private void tell(LineChannel lines, Events events) throws IOException, InterruptedException {
        try {
            while (server.isOpen()) {
                MigrationEvent event = events.queue.poll(LOOK_S, TimeUnit.SECONDS);
                if (event instanceof MigrationEvent.Going going) {
                    say(lines, ControlProtocol.PROGRESS, going.progress());
                } else if (event instanceof MigrationEvent.Ended ended) {
                    say(lines, ControlProtocol.REPORT, ended.report());
                    return;
                } else if (event instanceof MigrationEvent.Failed failed) {
                    say(lines, ControlProtocol.ERROR, failed.reason());
                    return;
                }
            }
        } finally {
            migrations.unwatch(events);
        }
    }

    private void say(LineChannel lines, String key, Object value) throws IOException {
        lines.writeLine(protocol.line(key, value), WRITE_LIMIT);
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

    @Override
    public void close() throws IOException {
        server.close();
        Files.deleteIfExists(socket);
        try {
            for (Thread thread : serving) {
                thread.join(CLOSE_LIMIT_MS);
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
