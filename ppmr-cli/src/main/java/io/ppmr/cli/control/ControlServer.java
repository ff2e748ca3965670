package io.ppmr.cli.control;

import com.fasterxml.jackson.databind.JsonNode;
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
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import jdk.net.ExtendedSocketOptions;
import jdk.net.UnixDomainPrincipal;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A service's control socket. Who may use it: by the socket's mode, and by SO_PEERCRED of unix(7), see
 * {@link ControlAccess}. One thread accepts, one serves each connection, for one request; at most {@value #MOST} at
 * once.
 */
public final class ControlServer implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(ControlServer.class);
    static final int MOST = 16;
    private static final Duration REQUEST_LIMIT = Duration.ofSeconds(5);
    private static final int CLOSE_LIMIT_MS = 2000;

    private final Path socket;
    private final ControlAccess access;
    private final Map<String, ControlRequests.Request> requests;
    private final GroupLookup groups;
    private final String ownUser;
    private final ControlProtocol protocol = new ControlProtocol();
    private final ServerSocketChannel server;
    private final Thread acceptor;
    private final Set<Thread> serving = ConcurrentHashMap.newKeySet();

    /** Binds the socket; throws if another service answers there. */
    public ControlServer(Path socket, ControlAccess access, ControlRequests requests) throws IOException {
        this(socket, access, requests, GroupLookup.system());
    }

    ControlServer(Path socket, ControlAccess access, ControlRequests requests, GroupLookup groups) throws IOException {
        this.socket = socket;
        this.access = access;
        this.requests = Map.copyOf(requests.requests());
        this.groups = groups;
        clearStale(socket);
        Files.createDirectories(socket.toAbsolutePath().getParent());
        server = ServerSocketChannel.open(StandardProtocolFamily.UNIX);
        try {
            server.bind(UnixDomainSocketAddress.of(socket));
            if (access.group().isPresent()) {
                Files.setAttribute(socket, "unix:gid", access.group().get().gid());
            }
            Files.setPosixFilePermissions(socket, PosixFilePermissions.fromString(access.socketMode()));
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
            ControlAccess.Right right = access.of(user, peer.group().getName(), ownUser, groups);
            Conversation with = new Conversation(user, lines, protocol, server::isOpen);
            if (right == ControlAccess.Right.NOTHING && !access.jobOwners()) {
                LOG.warn("control socket: user {} is turned away", user);
                with.say(ControlProtocol.ERROR, turnedAway(user));
                return;
            }
            answer(with, right, lines.readLine(REQUEST_LIMIT));
        } catch (IOException e) {
            LOG.info("control connection: {}", e.getMessage());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } finally {
            serving.remove(Thread.currentThread());
        }
    }

    private void answer(Conversation with, ControlAccess.Right right, String line)
            throws IOException, InterruptedException {
        JsonNode parsed;
        try {
            parsed = protocol.parse(line);
        } catch (IOException e) {
            with.say(ControlProtocol.ERROR, e.getMessage());
            return;
        }
        ControlRequests.Request request =
                requests.get(parsed.path(ControlProtocol.REQUEST).asText());
        if (request == null) {
            with.say(
                    ControlProtocol.ERROR,
                    "unknown request: " + line.substring(0, Math.min(line.length(), 80)) + " (known: "
                            + String.join(", ", new TreeSet<>(requests.keySet())) + ")");
        } else if (!may(right, request, parsed, with.user())) {
            LOG.warn("control socket: user {} may not do this: {}", with.user(), line);
            with.say(
                    ControlProtocol.ERROR,
                    turnedAway(with.user())
                            + (right == ControlAccess.Right.STATUS ? "; you may read its status" : "")
                            + (access.jobOwners() ? "; you may have jobs moved that you have announced" : ""));
        } else {
            request.answerer().answer(parsed, with);
        }
    }

    private boolean may(ControlAccess.Right right, ControlRequests.Request request, JsonNode parsed, String user) {
        return right == ControlAccess.Right.CONTROL
                || (right == ControlAccess.Right.STATUS && request.readsOnly())
                || (access.jobOwners() && request.owners().mayAsk(parsed, user));
    }

    private String turnedAway(String user) {
        return "user " + user + " may not control this service: become root"
                + access.group().map(group -> ", or join group " + group.name()).orElse("");
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
