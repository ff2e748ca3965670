package io.ppmr.daemon.control;

import com.fasterxml.jackson.databind.JsonNode;
import io.ppmr.migration.RequestException;
import io.ppmr.migration.UnknownJobException;
import io.ppmr.migration.source.MigrationProgress;
import io.ppmr.migration.source.MigrationQueue;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.transaction.journal.FinalOutcome;
import io.ppmr.transaction.operator.OperatorDecision;
import io.ppmr.transaction.operator.Resolution;
import java.io.EOFException;
import java.io.IOException;
import java.net.SocketException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.function.Consumer;

/**
 * A request to a service's control socket. It is for one thread and one request. Its owner closes it, from any thread.
 */
public final class ControlClient implements AutoCloseable {
    private static final Duration ANSWER_LIMIT = Duration.ofSeconds(10);
    /** The services, as the names of their usual sockets begin. */
    private static final List<String> ROLES = List.of("source", "target", "controller");

    private final Path socket;
    private final ControlProtocol protocol = ControlProtocol.ofClient();
    private final LineChannel lines;

    /** The service closed the connection, or crashed, before its last answer. */
    public static final class ServiceGoneException extends IOException {
        private static final long serialVersionUID = 1;

        ServiceGoneException(String message, Throwable cause) {
            super(message, cause);
        }
    }

    public ControlClient(Path socket) throws IOException {
        this.socket = socket;
        SocketChannel channel = SocketChannel.open(StandardProtocolFamily.UNIX);
        try {
            channel.connect(UnixDomainSocketAddress.of(socket));
            lines = LineChannel.ofClient(channel);
        } catch (IOException e) {
            channel.close();
            throw new IOException(unreachable(socket, String.valueOf(e.getMessage())), e);
        }
    }

    private static String unreachable(Path socket, String cause) {
        if (cause.contains("Permission denied")) {
            return "you may not use the control socket " + socket + " (" + cause + "). Remedy: become root, or have"
                    + " the operator set control_group or public_status in the service's configuration";
        }
        if (Files.isRegularFile(socket)) {
            return socket + " is a file and not a control socket. Remedy: name a configuration with --config, a socket"
                    + " with --socket";
        }
        String name = socket.getFileName().toString();
        String command = ROLES.stream()
                .filter(name::startsWith)
                .findFirst()
                .map(role -> " (systemctl start ppmr-" + role + ")")
                .orElse("");
        return "no service answers at " + socket + " (" + cause + "). Remedy: start the service" + command
                + ", or name another control socket with --socket";
    }

    /** Queries the status of the service. */
    public ControlStatus status() throws IOException {
        return ask(ControlProtocol.STATUS, new ControlRequest.Shown(false), ANSWER_LIMIT)
                .status();
    }

    /**
     * Starts a migration.
     *
     * @param job the job, or null for the job of the configuration's trigger
     * @param wait whether {@link #awaitReport} follows
     * @return its name and its job's
     * @throws RequestException if the service does not start it
     */
    public MigrationQueue.Started start(String job, boolean wait) throws IOException, RequestException {
        return start(job, List.of(), Optional.empty(), wait);
    }

    /**
     * Starts a migration to these nodes.
     *
     * @param to the nodes, each HOST:PORT, or empty for the configured spare nodes
     * @param keep the directory in which a copy of the images is kept, or empty for the configured one, if there is one
     */
    public MigrationQueue.Started start(String job, List<String> to, Optional<Path> keep, boolean wait)
            throws IOException, RequestException {
        return start(job, to, keep, Optional.empty(), wait);
    }

    /**
     * Starts a migration to these nodes.
     *
     * @param within the time in which the job should be moved, in whole seconds, or empty if it may take any time
     */
    public MigrationQueue.Started start(
            String job, List<String> to, Optional<Path> keep, Optional<Duration> within, boolean wait)
            throws IOException, RequestException {
        String directory = keep.map(Path::toString).orElse(null);
        Long seconds = within.map(Duration::toSeconds).orElse(null);
        return start(new ControlRequest.Migrate(job, to, directory, seconds, wait));
    }

    /** Starts a migration by a request. */
    public MigrationQueue.Started start(ControlRequest.Migrate request) throws IOException, RequestException {
        return askFor(ControlProtocol.MIGRATE, request).started();
    }

    /**
     * Cancels a migration.
     *
     * @param id its name, or the first characters of its name
     * @return its whole name
     * @throws RequestException if it does not run, or is already decided
     */
    public String cancel(String id) throws IOException, RequestException {
        return askFor(ControlProtocol.CANCEL, new ControlRequest.Cancel(id)).cancelling();
    }

    /**
     * Sends an operator's decision about a migration, or queries its consequences.
     *
     * @param id its name, or the first characters of its name
     * @param carryOut whether the service carries the decision out
     * @param limit the time limit of the answer, because a fence command may take minutes
     */
    public Resolution resolve(String id, OperatorDecision word, boolean carryOut, Duration limit) throws IOException {
        return ask(ControlProtocol.RESOLVE, ControlRequest.ResolveRequest.of(id, word, carryOut), limit)
                .resolution();
    }

    /**
     * Queries the state of a migration, without a decision.
     *
     * @param id its whole name
     * @param limit how long to wait for the answer
     */
    public Resolution ask(String id, Duration limit) throws IOException {
        return resolve(id, new OperatorDecision(FinalOutcome.ROLLED_BACK, Set.of(), false, false), false, limit);
    }

    /**
     * Sends a request to an optional part of the service.
     *
     * @param name the name of the request
     * @param fields its fields
     * @param limit how long to wait for the answer
     * @param key the key of the answer
     * @param type the type of the answer
     * @throws RequestException if the service refuses it
     */
    public <T> T askPart(String name, Object fields, Duration limit, String key, Class<T> type)
            throws IOException, RequestException {
        lines.writeLine(protocol.request(name, fields), ANSWER_LIMIT);
        JsonNode answer = protocol.parse(lines.readLine(limit));
        ControlProtocol.ReplyLine known = failing(protocol.value(answer, ControlProtocol.ReplyLine.class));
        if (known.refused() != null) {
            throw new RequestException(known.refused());
        }
        if (!answer.hasNonNull(key)) {
            throw new IOException("the service at " + socket + " does not answer with " + key
                    + ": install the same release of ppmr everywhere");
        }
        return protocol.value(answer.get(key), type);
    }

    /** Subscribes to the running migration, or to the next one. {@link #awaitReport} follows. */
    public void watch() throws IOException {
        ask(ControlProtocol.WATCH, new ControlRequest.Plain(), ANSWER_LIMIT);
    }

    /**
     * Waits for the migration's end.
     *
     * @param limit the time limit for its next message
     * @param watcher receives its progress, on this thread
     * @throws ServiceGoneException if the service ends first
     */
    public MigrationReport awaitReport(Duration limit, Consumer<MigrationProgress> watcher) throws IOException {
        while (true) {
            ControlProtocol.ReplyLine line = receive(awaitLine(limit));
            if (line.report() != null) {
                return line.report();
            }
            if (line.progress() != null) {
                watcher.accept(line.progress());
            }
        }
    }

    private ControlProtocol.ReplyLine askFor(String name, Object fields) throws IOException, RequestException {
        ControlProtocol.ReplyLine answer = ask(name, fields, ANSWER_LIMIT);
        if (answer.unknown() != null) {
            throw new UnknownJobException(answer.unknown());
        }
        if (answer.refused() != null) {
            throw new RequestException(answer.refused());
        }
        return answer;
    }

    private ControlProtocol.ReplyLine ask(String name, Object fields, Duration limit) throws IOException {
        lines.writeLine(protocol.request(name, fields), ANSWER_LIMIT);
        return receive(lines.readLine(limit));
    }

    private String awaitLine(Duration limit) throws IOException {
        try {
            return lines.readLine(limit);
        } catch (EOFException | SocketException e) {
            throw new ServiceGoneException("the service at " + socket + " ended: " + e.getMessage(), e);
        }
    }

    private ControlProtocol.ReplyLine receive(String text) throws IOException {
        return failing(protocol.value(protocol.parse(text), ControlProtocol.ReplyLine.class));
    }

    private ControlProtocol.ReplyLine failing(ControlProtocol.ReplyLine line) throws IOException {
        if (line.error() != null) {
            throw new IOException("the service at " + socket + ": " + line.error());
        }
        return line;
    }

    @Override
    public void close() throws IOException {
        lines.close();
    }
}
