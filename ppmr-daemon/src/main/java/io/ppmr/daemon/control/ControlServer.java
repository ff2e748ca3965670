package io.ppmr.daemon.control;

import com.fasterxml.jackson.databind.JsonNode;
import io.ppmr.daemon.control.ControlRequest.Exchange;
import io.ppmr.linux.Accounts;
import io.ppmr.linux.Folders;
import io.ppmr.linux.LogContext;
import io.ppmr.linux.RareLog;
import io.ppmr.transport.listen.AcceptLoop;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import jdk.net.ExtendedSocketOptions;
import jdk.net.UnixDomainPrincipal;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A service's control socket. The socket's mode and SO_PEERCRED of unix(7) restrict its users, see {@link
 * ControlAccess}. {@link ConnectionShares} limits the connections. One thread accepts, and a thread for each connection
 * serves one request. That thread looks up the caller and its groups, because a directory service may be slow. While
 * {@value #BEING_IDENTIFIED} callers are looked up, the next ones wait.
 */
public final class ControlServer implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(ControlServer.class);
    private static final int BEING_IDENTIFIED = 16;
    private static final Duration IDENTIFIED_LIMIT = Duration.ofSeconds(1);
    private static final int BACKLOG = 128;
    private static final int LOGGED_CHARACTERS = 80;
    private static final Duration REQUEST_LIMIT = Duration.ofSeconds(5);
    /** A connection leaves these as soon as it is accepted. {@link ConnectionShares} assigns the places. */
    private static final AcceptLoop.ConnectionLimits ARRIVING = new AcceptLoop.ConnectionLimits(64, 64, REQUEST_LIMIT);

    private static final int CLOSE_LIMIT_MS = 2000;

    private final Path socket;
    private final ControlAccess access;
    private final Map<String, ControlRequest<?>> requests;
    private final Function<String, Set<Integer>> groups;
    private final String ownUser;
    private final ControlProtocol protocol = new ControlProtocol();
    private final ServerSocketChannel server;
    private final ConnectionShares places = new ConnectionShares();
    private final Semaphore identifying = new Semaphore(BEING_IDENTIFIED);
    private final RareLog log = new RareLog(LOG::warn);
    private final RareLog broken = new RareLog(LOG::info);
    private final AcceptLoop loop;
    private final Set<Thread> serving = ConcurrentHashMap.newKeySet();

    /**
     * Binds the socket. Throws if another service answers there.
     *
     * @param requests the requests, by their names in the protocol
     */
    public ControlServer(Path socket, ControlAccess access, Map<String, ControlRequest<?>> requests)
            throws IOException {
        this(socket, access, requests, ControlServer::groupsOf);
    }

    ControlServer(
            Path socket,
            ControlAccess access,
            Map<String, ControlRequest<?>> requests,
            Function<String, Set<Integer>> groups)
            throws IOException {
        this.socket = socket;
        this.access = access;
        this.requests = Map.copyOf(requests);
        this.groups = groups;
        clearStale(socket);
        Folders.create(socket.toAbsolutePath().getParent(), Folders.PASSABLE);
        server = ServerSocketChannel.open(StandardProtocolFamily.UNIX);
        try {
            server.bind(UnixDomainSocketAddress.of(socket), BACKLOG);
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
        loop = new AcceptLoop("control", server, ARRIVING, channel -> new Caller());
    }

    /** Looks up all groups of a user: SO_PEERCRED has no supplementary ones. */
    private static Set<Integer> groupsOf(String user) {
        try {
            return Accounts.groupsOf(user);
        } catch (IOException e) {
            LOG.warn("none of their groups is counted for user {}: {}", user, e.getMessage());
            return Set.of();
        }
    }

    /** Returns the path of the socket. */
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
            LOG.info("control socket {} of an earlier service is removed: {}", socket, e.getMessage());
            Files.delete(socket);
        }
    }

    /** Tests that the server accepts connections. It is for any thread, and blocks it for the limit at most. */
    public Optional<String> complaint(Duration limit) {
        return loop.responds(limit.toNanos())
                ? Optional.empty()
                : Optional.of("the accept thread is stuck at " + socket + " for " + limit);
    }

    /** Hands a new connection to a thread, which identifies the caller. The loop's thread waits for a free one. */
    private final class Caller implements AcceptLoop.ConnectionHandler {
        @Override
        public int proceed() {
            return ADMITTED;
        }

        @Override
        public void takeOver(SocketChannel channel) throws IOException {
            try {
                if (!identifying.tryAcquire(IDENTIFIED_LIMIT.toMillis(), TimeUnit.MILLISECONDS)) {
                    throw new IOException("this node's user database does not identify the callers before it in time");
                }
            } catch (InterruptedException e) {
                throw (IOException) new InterruptedIOException("the service ends").initCause(e);
            }
            boolean started = false;
            Thread thread = LogContext.thread(() -> serve(channel), "control-connection");
            try {
                serving.add(thread);
                thread.start();
                started = true;
            } finally {
                if (!started) {
                    serving.remove(thread);
                    identifying.release();
                }
            }
        }
    }

    /** A caller by name, with its rights, and the reason for a refusal if it has no place. */
    private record Identified(String user, ControlAccess.Right right, Optional<String> refusal) {
        boolean controls() {
            return right == ControlAccess.Right.CONTROL;
        }
    }

    private void serve(SocketChannel channel) {
        try (channel) {
            Identified caller;
            try {
                caller = identify(channel);
            } finally {
                identifying.release();
            }
            try (LineChannel lines = LineChannel.ofService(channel)) {
                serve(caller, new Exchange(caller.user(), caller.controls(), lines, protocol, server::isOpen), lines);
            } finally {
                if (caller.refusal().isEmpty()) {
                    places.leave(caller.user(), caller.controls());
                }
            }
        } catch (IOException e) {
            broken.write(e.getClass().getName(), "control connection: " + e.getMessage());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } finally {
            serving.remove(Thread.currentThread());
        }
    }

    /** Identifies the caller, and reserves a place for it if one is free. */
    private Identified identify(SocketChannel channel) throws IOException {
        UnixDomainPrincipal peer = channel.getOption(ExtendedSocketOptions.SO_PEERCRED);
        String user = peer.user().getName();
        boolean owner = ControlAccess.isOwner(user, ownUser);
        Optional<String> refusal = owner ? Optional.empty() : places.shareIsTaken(user);
        if (refusal.isPresent()) {
            // Before the look-up of the groups, which may be slow.
            return new Identified(user, ControlAccess.Right.NOTHING, refusal);
        }
        ControlAccess.Right right = access.of(user, peer.group().getName(), ownUser, groups);
        return new Identified(user, right, places.enter(user, owner, right == ControlAccess.Right.CONTROL));
    }

    private void serve(Identified caller, Exchange with, LineChannel lines) throws IOException, InterruptedException {
        if (caller.refusal().isPresent()) {
            log.write("no place", "control socket: " + caller.refusal().get());
            with.send(ControlProtocol.ERROR, caller.refusal().get());
            return;
        }
        if (caller.right() == ControlAccess.Right.NOTHING && !access.jobOwners()) {
            log.write("turned away", "control socket: user " + caller.user() + " is turned away");
            with.send(ControlProtocol.ERROR, turnedAway(caller.user()));
            return;
        }
        answer(with, caller.right(), lines.readLine(REQUEST_LIMIT));
    }

    private void answer(Exchange with, ControlAccess.Right right, String line)
            throws IOException, InterruptedException {
        JsonNode parsed;
        ControlRequest<?> request;
        try {
            parsed = protocol.parseRequest(line);
            request = requests.get(parsed.path(ControlProtocol.REQUEST).asText());
            if (request == null) {
                throw new IOException("unknown request: " + shortened(line) + " (known: "
                        + String.join(", ", new TreeSet<>(requests.keySet())) + ")");
            }
            if (!may(right, request, parsed, with.user())) {
                log.write(
                        "not allowed", "control socket: user " + with.user() + " may not do this: " + shortened(line));
                throw new IOException(turnedAway(with.user())
                        + (right == ControlAccess.Right.STATUS ? "; you may read its status" : "")
                        + (access.jobOwners() ? "; you may have jobs moved that you have announced" : ""));
            }
        } catch (IOException e) {
            with.send(ControlProtocol.ERROR, e.getMessage());
            return;
        }
        request.answer(parsed, with, protocol);
    }

    private static String shortened(String line) {
        return line.substring(0, Math.min(line.length(), LOGGED_CHARACTERS));
    }

    private boolean may(ControlAccess.Right right, ControlRequest<?> request, JsonNode parsed, String user)
            throws IOException {
        return right == ControlAccess.Right.CONTROL
                || (right == ControlAccess.Right.STATUS && request.readsOnly())
                || (access.jobOwners() && request.isOwner(parsed, user, protocol));
    }

    private String turnedAway(String user) {
        return "user " + user + " may not control this service: become root"
                + access.group().map(group -> ", or join group " + group.name()).orElse("");
    }

    @Override
    public void close() throws IOException {
        loop.close();
        Files.deleteIfExists(socket);
        try {
            for (Thread thread : serving) {
                thread.join(CLOSE_LIMIT_MS);
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /**
     * Counts and limits the connections to a control socket. Each user has a share. Users who may control the service
     * have reserved places, and use the others while these are free. So no number of users can block root's access to
     * the socket. It is safe for any thread.
     */
    static final class ConnectionShares {
        /** The places of all users who may not control the service. */
        static final int FOR_OTHERS = 32;
        /** The reserved places of root, the service's own user and the control group. */
        static final int KEPT_FREE = 16;
        /** The share of a user other than root and the service's own. */
        static final int OF_A_USER = 8;

        private final Map<String, Integer> users = new HashMap<>();
        private int controlling;
        private int others;

        /** Returns why a user gets no further connection, or empty if the user's share is not used up. */
        synchronized Optional<String> shareIsTaken(String user) {
            int held = users.getOrDefault(user, 0);
            return held < OF_A_USER
                    ? Optional.empty()
                    : Optional.of("user " + user + " has " + held
                            + " connections to this service open, as many as a user may: end some of them");
        }

        /**
         * Reserves a place, which {@link #leave} returns.
         *
         * @param owner whether it is root or the service's own user, which have no share
         * @param controls whether the user may control the service
         * @return the reason for a refusal, or empty if a place was reserved
         */
        synchronized Optional<String> enter(String user, boolean owner, boolean controls) {
            Optional<String> refusal = owner ? Optional.empty() : shareIsTaken(user);
            if (refusal.isEmpty()
                    && (controls ? controlling + others >= FOR_OTHERS + KEPT_FREE : others >= FOR_OTHERS)) {
                refusal = Optional.of("this service has as many connections as it takes"
                        + (controls ? "" : " of users who may not control it") + ": try again later");
            }
            if (refusal.isEmpty()) {
                users.merge(user, 1, Integer::sum);
                if (controls) {
                    controlling++;
                } else {
                    others++;
                }
            }
            return refusal;
        }

        /** Returns a place that {@link #enter} reserved for the same user and right. */
        synchronized void leave(String user, boolean controls) {
            users.computeIfPresent(user, (name, count) -> count == 1 ? null : count - 1);
            if (controls) {
                controlling--;
            } else {
                others--;
            }
        }
    }
}
