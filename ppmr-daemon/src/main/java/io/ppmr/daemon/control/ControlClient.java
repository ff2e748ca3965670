package io.ppmr.daemon.control;

import io.ppmr.daemon.pods.PodOrder;
import io.ppmr.daemon.pods.PodStatus;
import io.ppmr.daemon.pods.Pods;
import io.ppmr.migration.RequestException;
import io.ppmr.migration.source.MigrationProgress;
import io.ppmr.migration.source.MigrationQueue;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.transaction.journal.Outcome;
import io.ppmr.transaction.operator.OperatorDecision;
import io.ppmr.transaction.operator.Resolution;
import java.io.EOFException;
import java.io.IOException;
import java.net.SocketException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.SocketChannel;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.function.Consumer;

/** A request to a service's control socket. One thread, one request; closed by its owner, from any thread. */
public final class ControlClient implements AutoCloseable {
    private static final Duration ANSWER_LIMIT = Duration.ofSeconds(10);
    /** Allows for the programs by which a service makes a pod, each of which has its own deadline. */
    private static final Duration POD_LIMIT = Duration.ofMinutes(3);

    private final Path socket;
    private final ControlProtocol protocol = new ControlProtocol();
    private final LineChannel lines;

    /** The service has closed the connection, or died, while it was still to say something. */
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
            throw new IOException(
                    "no service answers at " + socket + " (" + e.getMessage()
                            + "): is the service running, does --socket or --config name its control_socket,"
                            + " and are you root, its user, or of its control_group?",
                    e);
        }
    }

    /** Asks for the status of the service. */
    public ControlStatus status() throws IOException {
        return ask(ControlProtocol.STATUS, new ControlRequest.Plain(), ANSWER_LIMIT)
                .status();
    }

    /**
     * Has a migration started.
     *
     * @param job null for the one that the configuration's trigger moves
     * @param wait whether {@link #awaitReport} follows
     * @return its name and its job's
     * @throws RequestException if the service does not start it
     */
    public MigrationQueue.Started start(String job, boolean wait) throws IOException, RequestException {
        return start(job, List.of(), Optional.empty(), wait);
    }

    /**
     * The same to these nodes.
     *
     * @param to each HOST:PORT; empty for the configured spare nodes
     * @param keep the directory in which a copy of the images is kept; empty for the configured one, if there is one
     */
    public MigrationQueue.Started start(String job, List<String> to, Optional<Path> keep, boolean wait)
            throws IOException, RequestException {
        String directory = keep.map(Path::toString).orElse(null);
        return askFor(ControlProtocol.MIGRATE, new ControlRequest.Migrate(job, to, directory, wait))
                .started();
    }

    /**
     * Has a migration called off.
     *
     * @param id its name, or the first characters of it
     * @return its whole name
     * @throws RequestException if it is not under way, or decided already
     */
    public String cancel(String id) throws IOException, RequestException {
        return askFor(ControlProtocol.CANCEL, new ControlRequest.Cancel(id)).cancelling();
    }

    /**
     * An operator decides for a migration, or asks what that would mean.
     *
     * @param id its name, or the first characters of it
     * @param carryOut whether it is to be done
     * @param limit how long to wait for the answer: a fence command may take minutes
     */
    public Resolution resolve(String id, OperatorDecision word, boolean carryOut, Duration limit) throws IOException {
        return ask(ControlProtocol.RESOLVE, ControlRequest.Resolve.of(id, word, carryOut), limit)
                .resolution();
    }

    /**
     * Asks the service what it knows of a migration; nothing is decided by that.
     *
     * @param id its whole name
     * @param limit how long to wait for the answer
     */
    public Resolution ask(String id, Duration limit) throws IOException {
        return resolve(id, new OperatorDecision(Outcome.ROLLED_BACK, Set.of(), false, false), false, limit);
    }

    /**
     * Has a pod made and started.
     *
     * @throws RequestException if it is not granted, or its command cannot begin
     */
    public PodStatus runPod(PodOrder order) throws IOException, RequestException {
        return askFor(ControlProtocol.POD_RUN, order, POD_LIMIT).pod();
    }

    /** Lists the pods that the caller may see. */
    public List<PodStatus> pods() throws IOException, RequestException {
        return askFor(ControlProtocol.POD_LIST, new ControlRequest.Plain(), POD_LIMIT)
                .pods();
    }

    /** Shows a pod, by its short or its full name. */
    public PodStatus showPod(String name) throws IOException, RequestException {
        return askFor(ControlProtocol.POD_SHOW, new PodRequests.Named(name), POD_LIMIT)
                .pod();
    }

    /**
     * Has a further command run in a pod.
     *
     * @param order the command; its name is the pod's
     * @param detached whether it goes on in the pod; else it is waited for
     */
    public Pods.Executed execute(PodOrder order, boolean detached) throws IOException, RequestException {
        return askFor(ControlProtocol.POD_EXEC, new PodRequests.Execute(order, detached), POD_LIMIT)
                .executed();
    }

    /** Has a pod ended, by its short or its full name; nothing of it is left when this returns. */
    public PodStatus stopPod(String name) throws IOException, RequestException {
        return askFor(ControlProtocol.POD_STOP, new PodRequests.Named(name), POD_LIMIT)
                .pod();
    }

    /** Has the service tell of the migration that runs, or of the next one; {@link #awaitReport} follows. */
    public void watch() throws IOException {
        ask(ControlProtocol.WATCH, new ControlRequest.Plain(), ANSWER_LIMIT);
    }

    /**
     * Waits for the migration's end.
     *
     * @param limit how long to wait for the next word of it
     * @param watcher told of its progress, on this thread
     * @throws ServiceGoneException if the service ends before
     */
    public MigrationReport awaitReport(Duration limit, Consumer<MigrationProgress> watcher) throws IOException {
        while (true) {
            ControlProtocol.Answer line = receive(awaitLine(limit));
            if (line.report() != null) {
                return line.report();
            }
            if (line.progress() != null) {
                watcher.accept(line.progress());
            }
        }
    }

    private ControlProtocol.Answer askFor(String name, Object fields) throws IOException, RequestException {
        return askFor(name, fields, ANSWER_LIMIT);
    }

    private ControlProtocol.Answer askFor(String name, Object fields, Duration limit)
            throws IOException, RequestException {
        ControlProtocol.Answer answer = ask(name, fields, limit);
        if (answer.refused() != null) {
            throw new RequestException(answer.refused());
        }
        return answer;
    }

    private ControlProtocol.Answer ask(String name, Object fields, Duration limit) throws IOException {
        lines.writeLine(protocol.request(name, fields), ANSWER_LIMIT);
        return receive(lines.readLine(limit));
    }

    private String awaitLine(Duration limit) throws IOException {
        try {
            return lines.readLine(limit);
        } catch (EOFException | SocketException e) {
            throw new ServiceGoneException("the service at " + socket + " has ended: " + e.getMessage(), e);
        }
    }

    private ControlProtocol.Answer receive(String text) throws IOException {
        ControlProtocol.Answer line = protocol.value(protocol.parse(text), ControlProtocol.Answer.class);
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
