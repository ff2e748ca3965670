package io.ppmr.daemon.control;

import com.fasterxml.jackson.databind.JsonNode;
import io.ppmr.daemon.control.ControlRequest.Exchange;
import io.ppmr.daemon.service.Migrations;
import io.ppmr.fuzz.Fuzz;
import io.ppmr.fuzz.FuzzPlan;
import io.ppmr.fuzz.Mutator;
import io.ppmr.migration.RequestException;
import io.ppmr.migration.source.MigrationQueue;
import io.ppmr.transaction.operator.Resolution;
import java.io.EOFException;
import java.io.IOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * Tests the input from a node's users at a service's control socket: lines of any bytes, and requests of any content.
 */
class ControlFuzzTest {
    private static final Duration LIMIT = Duration.ofSeconds(5);
    private static final List<byte[]> REQUESTS = Stream.of(
                    "{\"request\": \"migrate\", \"job\": \"a\", \"to\": [\"node-7:7411\", \"[2001:db8::7]:7411\"],"
                            + " \"keep\": \"/kept\", \"wait\": true}",
                    "{\"request\": \"migrate\", \"job\": \"slurm-7.0\"}",
                    "{\"request\": \"cancel\", \"id\": \"m-1\"}",
                    "{\"request\": \"resolve\", \"id\": \"m-1\", \"outcome\": \"commit\", \"targets_off\": [\"a:7\"],"
                            + " \"source_off\": false, \"first_off\": true, \"carry_out\": false}",
                    "{\"request\": \"status\"}",
                    "{\"request\": \"watch\"}")
            .map(line -> line.getBytes(StandardCharsets.UTF_8))
            .toList();
    private static final String[] WORDS = {
        "{",
        "}",
        "[",
        "]",
        "\"",
        ":",
        ",",
        "\n",
        "\\u0000",
        "\\ud800",
        "null",
        "true",
        "1e999",
        "-1",
        "99999",
        ":65536",
        "\"request\": ",
        "\"to\": ",
        "\"keep\": ",
        "\"job\": ",
        "\"id\": ",
        "\"migrate\"",
        "\"resolve\"",
        "[[",
        "{\"a\":"
    };

    @TempDir
    private Path directory;

    private final ControlProtocol protocol = new ControlProtocol();
    private ServerSocketChannel server;
    private SocketChannel client;
    private LineChannel lines;
    private Map<String, ControlRequest<?>> requests;

    @BeforeEach
    void listen() throws IOException {
        server = ServerSocketChannel.open(StandardProtocolFamily.UNIX);
        server.bind(UnixDomainSocketAddress.of(directory.resolve("s")));
        client = SocketChannel.open(server.getLocalAddress());
        client.configureBlocking(false);
        lines = LineChannel.ofService(server.accept());
        Migrations migrations =
                new Migrations(Map.of(), Optional.empty(), new MigrationQueue((id, order, cancellation, watcher) -> {
                    throw new IllegalStateException("there is nothing to move");
                }));
        requests = new SourceRequests(
                        migrations,
                        () -> null,
                        () -> null,
                        List::of,
                        (id, word, carryOut, by) ->
                                new Resolution(id, Resolution.ResolutionResult.REFUSED, "nothing is open"))
                .requests();
    }

    @AfterEach
    void close() throws IOException {
        lines.close();
        client.close();
        server.close();
    }

    private static Fuzz lineFuzz() {
        Mutator mutator = new Mutator(REQUESTS, LineChannel.MAX_LINE_BYTES + 1000, WORDS);
        return new Fuzz(FuzzPlan.CONTROL_LINES, mutator, List.of(IOException.class)).allocatesAtMost(512 * 1024, 200);
    }

    private static Fuzz requestFuzz() {
        Mutator mutator = new Mutator(REQUESTS, LineChannel.MAX_LINE_BYTES, WORDS);
        return new Fuzz(FuzzPlan.CONTROL_REQUESTS, mutator, List.of(IOException.class, RequestException.class))
                .allocatesAtMost(512 * 1024, 500);
    }

    /** Simulates a connection with this input. All of its lines are requests. */
    private void connect(byte[] input) throws IOException {
        try (SocketChannel caller = SocketChannel.open(server.getLocalAddress());
                LineChannel called = LineChannel.ofService(server.accept())) {
            ByteBuffer bytes = ByteBuffer.wrap(input);
            while (bytes.hasRemaining()) {
                caller.write(bytes);
            }
            caller.write(ByteBuffer.wrap(new byte[] {'\n'}));
            caller.close();
            readLines(called);
        }
    }

    private void readLines(LineChannel called) throws IOException {
        for (int count = 0; true; count++) {
            String line;
            try {
                line = called.readLine(LIMIT);
            } catch (EOFException e) {
                if (count == 0) {
                    throw e;
                }
                return;
            }
            protocol.parse(line);
        }
    }

    private void request(byte[] input) throws Exception {
        JsonNode parsed = protocol.parse(new String(input, StandardCharsets.UTF_8));
        ControlRequest<?> request =
                requests.get(parsed.path(ControlProtocol.REQUEST).asText());
        if (request == null) {
            throw new IOException("there is no such request");
        }
        request.isOwner(parsed, "nobody", protocol);
        if (request.fields() == ControlRequest.Migrate.class) {
            ControlRequest.Migrate migrate = protocol.value(parsed, ControlRequest.Migrate.class);
            SourceRequests.targets(migrate);
            SourceRequests.directory(migrate);
        }
        if (!parsed.has("to")) {
            // Where there are targets their names are looked up next, which is not for a test to wait for.
            request.answer(parsed, new Exchange("nobody", false, lines, protocol, () -> false), protocol);
            drain();
        }
    }

    private void drain() throws IOException {
        ByteBuffer answer = ByteBuffer.allocate(LineChannel.MAX_LINE_BYTES);
        int got = client.read(answer);
        while (got > 0) {
            got = client.read(answer.clear());
        }
    }

    @Test
    void shouldTakeOrRefuseByNameWhateverComesAsLines() throws Exception {
        lineFuzz().inTheGate(this::connect);
    }

    @Test
    void shouldAnswerOrRefuseByNameWhateverIsRequested() throws Exception {
        requestFuzz().inTheGate(this::request);
    }

    @Tag("soak")
    @Test
    @Timeout(value = 60, unit = TimeUnit.MINUTES)
    void shouldTakeOrRefuseByNameForLongWhateverComesAsLines() throws Exception {
        lineFuzz().forLong(this::connect);
    }

    @Tag("soak")
    @Test
    @Timeout(value = 60, unit = TimeUnit.MINUTES)
    void shouldAnswerOrRefuseByNameForLongWhateverIsRequested() throws Exception {
        requestFuzz().forLong(this::request);
    }
}
