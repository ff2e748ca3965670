package io.ppmr.daemon.control;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.CheckpointerSettings;
import io.ppmr.checkpoint.JobUser;
import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.daemon.jobs.ConfiguredJob;
import io.ppmr.daemon.service.Migrations;
import io.ppmr.migration.RequestException;
import io.ppmr.migration.keep.Keeping;
import io.ppmr.migration.keep.Keeping.KeptImageReport;
import io.ppmr.migration.source.Cancellation;
import io.ppmr.migration.source.MigrationOrder;
import io.ppmr.migration.source.MigrationProgress;
import io.ppmr.migration.source.MigrationProgress.SourceStep;
import io.ppmr.migration.source.MigrationQueue;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.migration.source.MigrationReport.MovedRank;
import io.ppmr.transaction.journal.FinalOutcome;
import io.ppmr.transaction.operator.OpenMigration;
import io.ppmr.transaction.operator.OperatorDecision;
import io.ppmr.transaction.operator.Resolution;
import java.io.EOFException;
import java.io.IOException;
import java.net.SocketTimeoutException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The control socket's server and client, with a migration that a test plays. */
class ControlSocketTest {
    private static final Duration LIMIT = Duration.ofSeconds(20);
    private static final MigrationProgress PROGRESS =
            new MigrationProgress(SourceStep.CHECKPOINT, 5, 4, 3, 2, 1.5, 9, "streamed: 3 MiB");
    private static final MigrationReport REPORT = new MigrationReport(
            "id",
            "mine",
            "streamed: 3 MiB",
            MigrationReport.Outcome.ROLLED_BACK,
            "why",
            new MigrationReport.MovedImages(1L << 40, 2, 6),
            new MigrationReport.MigrationTimes(3.5, 4, 5, 10),
            new MigrationReport.ServiceMemory(7, 8, 9),
            List.of(new MovedRank(3, List.of(77))),
            new KeptImageReport(false, "/kept", 0, "the disk is full"),
            false);

    @TempDir
    private Path folder;

    private final CountDownLatch go = new CountDownLatch(1);
    private Path socket;
    private volatile Cancellation running;
    private volatile Keeping.KeepRequest wish;
    private Migrations migrations;
    private ControlServer server;

    @BeforeEach
    void setUp() throws IOException {
        socket = folder.resolve("s");
        migrations = new Migrations(
                Map.of("a", job("a"), "b", job("b")), Optional.of("a"), new MigrationQueue(this::migrate));
        server = serve(socket, migrations);
    }

    @AfterEach
    void tearDown() throws Exception {
        go.countDown();
        assertTrue(migrations.close(LIMIT));
        server.close();
        assertFalse(Files.exists(socket));
    }

    private static ConfiguredJob job(String name) {
        return new ConfiguredJob(
                name,
                new JobUser(1, 1),
                CheckpointerSettings.Blcr.installed().create("blcr", NativePrograms.fromSystemProperty()),
                List.of(new ConfiguredJob.RankSource(0, 99, null)));
    }

    private static ControlServer serve(Path socket, Migrations migrations) throws IOException {
        return new ControlServer(
                socket,
                ControlAccess.OWNER,
                new SourceRequests(
                                migrations,
                                () -> null,
                                () -> null,
                                List::of,
                                (id, word, carryOut, by) ->
                                        new Resolution(id, Resolution.ResolutionResult.REFUSED, "not known here"))
                        .requests());
    }

    private MigrationReport migrate(
            String id, MigrationOrder order, Cancellation cancellation, Consumer<MigrationProgress> watcher)
            throws InterruptedException {
        running = cancellation;
        wish = order.keep();
        watcher.accept(PROGRESS);
        if (!go.await(LIMIT.toSeconds(), TimeUnit.SECONDS)) {
            throw new IllegalStateException("the test never let the migration end");
        }
        return REPORT;
    }

    @Test
    void shouldShowProgressAndReportWhenAMigrationIsAskedFor() throws Exception {
        List<MigrationProgress> seen = new ArrayList<>();
        try (ControlClient client = new ControlClient(socket)) {
            assertEquals("b", client.start("b", true).job());
            MigrationReport report = client.awaitReport(LIMIT, progress -> {
                seen.add(progress);
                go.countDown();
            });
            assertEquals(REPORT, report);
        }
        assertEquals(List.of(PROGRESS), seen);
        assertEquals("rw-------", PosixFilePermissions.toString(Files.getPosixFilePermissions(socket)));
    }

    @Test
    void shouldKeepACopyWhereTheRequestSaysElseWhereTheJobDoes() throws Exception {
        go.countDown();
        ConfiguredJob plain = job("k");
        ConfiguredJob kept = new ConfiguredJob(
                "k",
                plain.user(),
                plain.checkpointer(),
                plain.ranks(),
                plain.others(),
                plain.hooks(),
                List.of(),
                Optional.of(Path.of("/own")),
                Map.of());
        try (ControlServer other = serve(
                folder.resolve("k"),
                new Migrations(Map.of("k", kept), Optional.empty(), new MigrationQueue(this::migrate)))) {
            assertEquals(Optional.of(Path.of("/asked")), kept(other, Optional.of(Path.of("/asked"))));
            assertEquals(Optional.of(Path.of("/own")), kept(other, Optional.empty()));
            String refusal = assertThrows(RequestException.class, () -> kept(other, Optional.of(Path.of("here"))))
                    .getMessage();
            assertTrue(refusal.contains("is not an absolute path"), refusal);
        }
    }

    private Optional<Path> kept(ControlServer server, Optional<Path> directory) throws Exception {
        try (ControlClient client = new ControlClient(server.path())) {
            client.start("k", List.of(), directory, true);
            client.awaitReport(LIMIT, progress -> {});
        }
        return wish.directory();
    }

    @Test
    void shouldRefuseWhenOneIsUnderWayAndTellTheWatchersOfThatOne() throws Exception {
        try (ControlClient watcher = new ControlClient(socket);
                ControlClient first = new ControlClient(socket);
                ControlClient second = new ControlClient(socket)) {
            watcher.watch();
            assertEquals("a", first.start(null, true).job());
            String message = assertThrows(RequestException.class, () -> second.start("b", true))
                    .getMessage();
            assertTrue(message.contains("job a is being migrated"), message);
            go.countDown();
            assertEquals(REPORT, watcher.awaitReport(LIMIT, progress -> {}));
            assertEquals(REPORT, first.awaitReport(LIMIT, progress -> {}));
        }
    }

    @Test
    void shouldCancelOnlyTheMigrationThatRunsWhenAsked() throws Exception {
        assertRefused("no migration is under way", "1234");
        CountDownLatch begun = new CountDownLatch(1);
        String id = migrations.start("a", "a test", event -> begun.countDown()).id();
        assertTrue(begun.await(LIMIT.toSeconds(), TimeUnit.SECONDS));
        assertRefused("is not under way; the current migration: " + id, "nothing like it");
        assertRefused("is not under way", "");
        try (ControlClient client = new ControlClient(socket)) {
            assertEquals(id, client.cancel(id.substring(0, 8)));
        }
        // A cancelled migration stays cancelled for every later request.
        assertTrue(running.cancel("another"));
    }

    private void assertRefused(String message, String id) throws IOException {
        try (ControlClient client = new ControlClient(socket)) {
            String said = assertThrows(RequestException.class, () -> client.cancel(id))
                    .getMessage();
            assertTrue(said.contains(message), said);
        }
    }

    @Test
    void shouldRefuseWhenThereIsNoSuchJob() throws Exception {
        try (ControlClient client = new ControlClient(socket)) {
            assertTrue(assertThrows(RequestException.class, () -> client.start("c", true))
                    .getMessage()
                    .contains("known are a, b"));
        }
    }

    @Test
    void shouldSayWhatItDoesWhenAskedForStatus() throws Exception {
        try (ControlClient client = new ControlClient(socket)) {
            assertEquals(
                    new ControlStatus(
                            "source", false, null, null, null, null, null, null, List.of(), List.of(), null, null),
                    client.status());
        }
        CountDownLatch begun = new CountDownLatch(1);
        String id = migrations.start("b", "a test", event -> begun.countDown()).id();
        assertTrue(begun.await(LIMIT.toSeconds(), TimeUnit.SECONDS));
        try (ControlClient client = new ControlClient(socket)) {
            assertEquals(
                    new ControlStatus(
                            "source", true, id, "b", PROGRESS, null, null, null, List.of(), List.of(), null, null),
                    client.status());
        }
    }

    @Test
    void shouldCarryAnOperatorsWordToTheServiceAndItsAnswerBack() throws Exception {
        OperatorDecision word = new OperatorDecision(FinalOutcome.ROLLED_BACK, Set.of("a:1", "b:2"), false, true);
        List<Object> heard = new ArrayList<>();
        OpenMigration open = new OpenMigration("m-1", "BROKEN", true, List.of(1), 77, "an operator");
        SourceRequests requests =
                new SourceRequests(migrations, () -> null, () -> null, () -> List.of(open), (id, said, doIt, by) -> {
                    heard.addAll(List.of(id, said, doIt));
                    return new Resolution(id, Resolution.ResolutionResult.STILL_HELD, "why");
                });
        Path path = folder.resolve("r");
        try (ControlServer other = new ControlServer(path, ControlAccess.OWNER, requests.requests());
                ControlClient client = new ControlClient(other.path());
                ControlClient status = new ControlClient(path)) {
            assertEquals(
                    new Resolution("m-1", Resolution.ResolutionResult.STILL_HELD, "why"),
                    client.resolve("m-1", word, true, LIMIT));
            assertEquals(List.of("m-1", word, true), heard);
            assertEquals(List.of(open), status.status().open());
        }
    }

    @Test
    void shouldTellTheReasonWhenAMigrationCannotBegin() throws Exception {
        ConfiguredJob broken = new ConfiguredJob(
                "x",
                new JobUser(1, 1),
                job("x").checkpointer(),
                List.of(new ConfiguredJob.RankSource(4, 0, folder.resolve("no.pid"))));
        Migrations others = new Migrations(Map.of("x", broken), Optional.empty(), new MigrationQueue(this::migrate));
        try (ControlServer other = serve(folder.resolve("t"), others);
                ControlClient client = new ControlClient(other.path())) {
            client.start("x", true);
            String message = assertThrows(IOException.class, () -> client.awaitReport(LIMIT, progress -> {}))
                    .getMessage();
            assertTrue(message.contains("no.pid does not exist"), message);
        }
    }

    @Test
    void shouldAnswerByNameWhenARequestIsNotOurs() throws Exception {
        assertTrue(answerTo("hello\n").contains("not JSON"));
        assertTrue(answerTo("[]\n").contains("not a JSON object"));
        assertTrue(answerTo("{\"request\": \"dance\"}\n").contains("unknown request"));
    }

    @Test
    void shouldRefuseByNameWhenNodesOrDirectoriesCannotBe() throws Exception {
        String migrate = "{\"request\": \"migrate\", \"job\": \"a\", ";
        for (String wrong : List.of("\"n:65536\"", "\"n\"", "\":1\"", "\"n:-1\"", "7", "null", "{}")) {
            String answer = answerTo(migrate + "\"to\": [" + wrong + "]}\n");
            assertTrue(answer.contains("refused") && answer.contains("is not a target node"), wrong + ": " + answer);
        }
        String many = "\"n:1\",".repeat(300);
        String answer = answerTo(migrate + "\"to\": [" + many + "\"n:1\"]}\n");
        assertTrue(answer.contains("at most 256 nodes"), answer);
        for (String wrong : List.of("here", "", "/a\\u0000b", "/a\\ud800b")) {
            answer = answerTo(migrate + "\"keep\": \"" + wrong + "\"}\n");
            assertTrue(answer.contains("is not an absolute path"), answer);
        }
        assertEquals(Optional.empty(), migrations.state().running());
    }

    @Test
    void shouldRefuseByNameWhenARequestHasManyValues() throws Exception {
        for (String value : List.of("{},", "[],", "\"\",", "1,")) {
            String answer = answerTo("{\"request\": \"status\", \"x\": [" + value.repeat(9000) + "1]}\n");
            assertTrue(answer.contains("a request of more than 8500 values"), answer);
        }
        String answer = answerTo("{\"request\": \"status\", \"x\": [" + "1,".repeat(8000) + "1]}\n");
        assertTrue(answer.contains("\"status\""), answer);
    }

    private String answerTo(String request) throws IOException {
        try (SocketChannel channel = SocketChannel.open(UnixDomainSocketAddress.of(socket));
                LineChannel lines = LineChannel.ofClient(channel)) {
            lines.writeLine(request.strip(), LIMIT);
            return lines.readLine(LIMIT);
        }
    }

    @Test
    void shouldHangUpWhenALineIsTooLong() throws Exception {
        try (SocketChannel channel = SocketChannel.open(UnixDomainSocketAddress.of(socket));
                LineChannel lines = LineChannel.ofClient(channel)) {
            String most = "x".repeat(LineChannel.MAX_LINE_BYTES - 1);
            assertThrows(IOException.class, () -> lines.writeLine(most + "x", LIMIT));
            lines.writeLine(most, LIMIT);
            assertTrue(lines.readLine(LIMIT).contains("not JSON"));
            assertThrows(EOFException.class, () -> lines.readLine(LIMIT));
        }
    }

    @Test
    void shouldHangUpWhenNoRequestComes() throws Exception {
        try (SocketChannel channel = SocketChannel.open(UnixDomainSocketAddress.of(socket));
                LineChannel lines = LineChannel.ofClient(channel)) {
            assertThrows(EOFException.class, () -> lines.readLine(LIMIT));
        }
    }

    @Test
    void shouldEndTheWaitWhenThePeerIsSilent() throws Exception {
        try (ServerSocketChannel silent = ServerSocketChannel.open(StandardProtocolFamily.UNIX)) {
            silent.bind(UnixDomainSocketAddress.of(folder.resolve("silent")));
            try (SocketChannel channel = SocketChannel.open(UnixDomainSocketAddress.of(folder.resolve("silent")));
                    LineChannel lines = LineChannel.ofClient(channel)) {
                assertThrows(SocketTimeoutException.class, () -> lines.readLine(Duration.ofMillis(50)));
            }
        }
    }

    @Test
    void shouldNotStopTheMigrationWhenItsClientGoesAway() throws Exception {
        CountDownLatch ended = new CountDownLatch(1);
        migrations.watch(event -> {
            if (event instanceof MigrationQueue.Event.Ended) {
                ended.countDown();
            }
        });
        try (ControlClient client = new ControlClient(socket)) {
            client.start("a", true);
        }
        assertTrue(migrations.state().running().isPresent());
        go.countDown();
        assertTrue(ended.await(LIMIT.toSeconds(), TimeUnit.SECONDS));
    }

    @Test
    void shouldTakeOverTheSocketOfADeadServiceAndNotOfALivingOne() throws Exception {
        IOException failure = assertThrows(IOException.class, () -> serve(socket, migrations));
        assertTrue(failure.getMessage().contains("belongs to a service that runs"), failure.getMessage());
        Path stale = folder.resolve("stale");
        try (ServerSocketChannel dead = ServerSocketChannel.open(StandardProtocolFamily.UNIX)) {
            dead.bind(UnixDomainSocketAddress.of(stale));
        }
        assertTrue(Files.exists(stale));
        try (ControlServer taken = serve(stale, migrations);
                ControlClient client = new ControlClient(taken.path())) {
            assertFalse(client.status().busy());
        }
    }
}
