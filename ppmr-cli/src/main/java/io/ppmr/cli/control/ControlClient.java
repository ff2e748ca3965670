package io.ppmr.cli.control;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.ppmr.cli.service.Migrations;
import io.ppmr.cli.service.RefusedException;
import io.ppmr.source.MigrationProgress;
import io.ppmr.source.MigrationReport;
import io.ppmr.transaction.OperatorWord;
import io.ppmr.transaction.Outcome;
import io.ppmr.transaction.Resolution;
import java.io.IOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.SocketChannel;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.function.Consumer;

/** A request to a service's control socket. One thread, one request; closed by its owner, from any thread. */
public final class ControlClient implements AutoCloseable {
    private static final Duration ANSWER_LIMIT = Duration.ofSeconds(10);

    private final Path socket;
    private final ControlProtocol protocol = new ControlProtocol();
    private final LineChannel lines;

    public ControlClient(Path socket) throws IOException {
        this.socket = socket;
        SocketChannel channel = SocketChannel.open(StandardProtocolFamily.UNIX);
        try {
            channel.connect(UnixDomainSocketAddress.of(socket));
            lines = new LineChannel(channel);
        } catch (IOException e) {
            channel.close();
            throw new IOException(
                    "no service answers at " + socket + " (" + e.getMessage()
                            + "): is the service running, does --socket or --config name its control_socket,"
                            + " and are you root, its user, or of its control_group?",
                    e);
        }
    }

    /** What the service is doing. */
    public ControlStatus status() throws IOException {
        send(ControlProtocol.STATUS, null, true);
        JsonNode answer = receive(ANSWER_LIMIT);
        requireNoError(answer);
        return protocol.value(answer.path(ControlProtocol.STATUS), ControlStatus.class);
    }

    /**
     * Has a migration started.
     *
     * @param job null for the one that the configuration's trigger moves
     * @param wait whether {@link #awaitReport} follows
     * @return its name and its job's
     * @throws RefusedException if the service does not start it
     */
    public Migrations.Started start(String job, boolean wait) throws IOException, RefusedException {
        return start(job, List.of(), wait);
    }

    /**
     * The same to these nodes.
     *
     * @param to each HOST:PORT; empty for the configured spare nodes
     */
    public Migrations.Started start(String job, List<String> to, boolean wait) throws IOException, RefusedException {
        ObjectNode request = request(ControlProtocol.MIGRATE, job, wait);
        to.forEach(request.putArray(ControlProtocol.TO)::add);
        lines.writeLine(protocol.line(request), ANSWER_LIMIT);
        JsonNode answer = receive(ANSWER_LIMIT);
        if (answer.has(ControlProtocol.REFUSED)) {
            throw new RefusedException(answer.path(ControlProtocol.REFUSED).asText());
        }
        requireNoError(answer);
        return protocol.value(answer.path(ControlProtocol.STARTED), Migrations.Started.class);
    }

    /**
     * Has a migration called off.
     *
     * @param id its name, or the first characters of it
     * @return its whole name
     * @throws RefusedException if it is not under way, or decided already
     */
    public String cancel(String id) throws IOException, RefusedException {
        ObjectNode node = protocol.object().put(ControlProtocol.REQUEST, ControlProtocol.CANCEL);
        lines.writeLine(protocol.line(node.put(ControlProtocol.ID, id)), ANSWER_LIMIT);
        JsonNode answer = receive(ANSWER_LIMIT);
        if (answer.has(ControlProtocol.REFUSED)) {
            throw new RefusedException(answer.path(ControlProtocol.REFUSED).asText());
        }
        requireNoError(answer);
        return answer.path(ControlProtocol.CANCELLING).asText();
    }

    /**
     * An operator decides for a migration, or asks what that would mean.
     *
     * @param id its name, or the first characters of it
     * @param carryOut whether it is to be done
     * @param limit how long to wait for the answer: a fence command may take minutes
     */
    public Resolution resolve(String id, OperatorWord word, boolean carryOut, Duration limit) throws IOException {
        ObjectNode request = protocol.object()
                .put(ControlProtocol.REQUEST, ControlProtocol.RESOLVE)
                .put(ControlProtocol.ID, id)
                .put(
                        ControlProtocol.OUTCOME,
                        word.outcome() == Outcome.COMMITTED ? ControlProtocol.COMMIT : ControlProtocol.ROLLBACK)
                .put(ControlProtocol.SOURCE_OFF, word.sourceOff())
                .put(ControlProtocol.FIRST_OFF, word.firstOff())
                .put(ControlProtocol.CARRY_OUT, carryOut);
        word.targetsOff().forEach(request.putArray(ControlProtocol.TARGETS_OFF)::add);
        lines.writeLine(protocol.line(request), ANSWER_LIMIT);
        JsonNode answer = receive(limit);
        requireNoError(answer);
        return protocol.value(answer.path(ControlProtocol.RESOLUTION), Resolution.class);
    }

    /** Has the service tell of the migration that runs, or of the next one; {@link #awaitReport} follows. */
    public void watch() throws IOException {
        send(ControlProtocol.WATCH, null, true);
        requireNoError(receive(ANSWER_LIMIT));
    }

    /**
     * Waits for the migration's end.
     *
     * @param limit how long to wait for the next word of it
     * @param watcher told of its progress, on this thread
     */
    public MigrationReport awaitReport(Duration limit, Consumer<MigrationProgress> watcher) throws IOException {
        while (true) {
            JsonNode line = receive(limit);
            requireNoError(line);
            if (line.has(ControlProtocol.REPORT)) {
                return protocol.value(line.path(ControlProtocol.REPORT), MigrationReport.class);
            }
            if (line.has(ControlProtocol.PROGRESS)) {
                watcher.accept(protocol.value(line.path(ControlProtocol.PROGRESS), MigrationProgress.class));
            }
        }
    }

    private void send(String request, String job, boolean wait) throws IOException {
        lines.writeLine(protocol.line(request(request, job, wait)), ANSWER_LIMIT);
    }

    private ObjectNode request(String request, String job, boolean wait) {
        ObjectNode node =
                protocol.object().put(ControlProtocol.REQUEST, request).put(ControlProtocol.WAIT, wait);
        return job == null ? node : node.put(ControlProtocol.JOB, job);
    }

    private JsonNode receive(Duration limit) throws IOException {
        return protocol.parse(lines.readLine(limit));
    }

    private void requireNoError(JsonNode line) throws IOException {
        if (line.has(ControlProtocol.ERROR)) {
            throw new IOException("the service at " + socket + ": "
                    + line.path(ControlProtocol.ERROR).asText());
        }
    }

    @Override
    public void close() throws IOException {
        lines.close();
    }
}
