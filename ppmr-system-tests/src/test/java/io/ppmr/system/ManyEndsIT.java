package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.linux.ProcessIdentity;
import io.ppmr.migration.ReconnectingLink;
import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.protocol.control.MigrationSecret;
import io.ppmr.protocol.data.Message;
import io.ppmr.testbed.Patience;
import io.ppmr.transaction.journal.FinalOutcome;
import io.ppmr.transaction.journal.MappedJournal;
import io.ppmr.transaction.journal.PlannedRank;
import io.ppmr.transaction.journal.TransactionRecord;
import io.ppmr.transport.auth.PreSharedKey;
import io.ppmr.transport.tcp.Connector;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * Services whose journals have the ends of one user's 200,000 failed migrations. An earlier release let one user create
 * these within half a day. They start with the heap of every service, and return the end of another user's migration.
 */
@Timeout(value = 300, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class ManyEndsIT {
    private static final int FAILURES = 200_000;
    private static final Duration LIMIT = Patience.of(Duration.ofSeconds(20));
    private static final String LATE = "0f6ccf4c-7d0e-4c0b-9a58-2f6f3a9a7a11";
    private static final String REASON =
            "rank 0 could not be checkpointed: the command ended with status 1; its last" + " words were: no such file";

    @TempDir
    private Path directory;

    private static String failed(int number) {
        return String.format("00000000-0000-4000-8000-%012d", number);
    }

    private void writeTargets() throws IOException {
        ProcessIdentity copy = new ProcessIdentity("a boot", 1, 7, 2);
        try (MappedJournal journal = MappedJournal.in(directory.resolve("target-journal"))) {
            journal.append(new TransactionRecord.PreparedHere(
                    LATE,
                    1,
                    List.of("127.0.0.1:7"),
                    "127.0.0.1:7",
                    "127.0.0.1",
                    List.of(new PlannedRank(0, "127.0.0.1:7", List.of(copy))),
                    1));
            journal.append(new TransactionRecord.CommittedHere(LATE, 1, false));
            journal.append(new TransactionRecord.Done(LATE, 1, FinalOutcome.COMMITTED, ""));
            for (int i = 0; i < FAILURES; i++) {
                journal.append(new TransactionRecord.RolledBackHere(failed(i), 1, REASON, false));
                journal.append(new TransactionRecord.Done(failed(i), 1, FinalOutcome.ROLLED_BACK, REASON));
            }
        }
    }

    private void writeSources() throws IOException {
        ProcessIdentity original = new ProcessIdentity("a boot", 1, 7, 2);
        try (MappedJournal journal = MappedJournal.in(directory.resolve("source-journal"))) {
            for (int i = 0; i < FAILURES; i++) {
                journal.append(new TransactionRecord.Begun(
                        failed(i),
                        1,
                        List.of("127.0.0.1:7"),
                        List.of(new PlannedRank(0, "127.0.0.1:7", List.of(original)))));
                journal.append(new TransactionRecord.RollBackDecided(failed(i), 1, REASON, false));
                journal.append(new TransactionRecord.Done(failed(i), 1, FinalOutcome.ROLLED_BACK, REASON));
            }
        }
    }

    /** Sends the target a late query, as a restarted source does, and returns the answer. */
    private Message askLate(RealServices services) throws Exception {
        BlockingQueue<Message> answers = new LinkedBlockingQueue<>();
        Connector connector = new Connector(
                new InetSocketAddress(InetAddress.getLoopbackAddress(), services.port()),
                PreSharedKey.load(directory.resolve("key")),
                LIMIT);
        try (ReconnectingLink link = new ReconnectingLink(
                () -> connector,
                "127.0.0.1:7",
                1,
                LIMIT,
                new ControlMessage.Participation(LATE, "", MigrationSecret.NONE),
                (answer, lengthBytes) -> answers.add(answer))) {
            link.send(new ControlMessage.Confirm(LATE));
            return answers.poll(LIMIT.toSeconds(), TimeUnit.SECONDS);
        }
    }

    @Tag("soak")
    @Test
    void shouldStartAndAnswerRightlyWhenOneUsersFailuresFillTheJournals() throws Exception {
        writeTargets();
        writeSources();
        try (ReplayJob job = new ReplayJob(directory)
                        .rank(
                                List.of("open image wcxn", "write 1m 64k", "close"),
                                List.of("open image r", "read 1m 64k", "close"));
                RealServices services = new RealServices(directory)) {
            services.startTarget(job);
            services.startSource(job);
            assertEquals(new ControlMessage.Committed(LATE), askLate(services));
            assertEquals(0, services.migrate(directory.resolve("report.json")), () -> "the job is not moved");
            String shown = services.command("show", "source", List.of(failed(FAILURES - 1)));
            assertTrue(shown.startsWith("0\n") && shown.contains("rolled back after 1 attempt"), shown);
        }
    }
}
