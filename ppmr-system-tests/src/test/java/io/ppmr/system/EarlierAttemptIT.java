package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.migration.ReconnectingLink;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.protocol.control.MigrationSecret;
import io.ppmr.protocol.data.Message;
import io.ppmr.system.TamperingRelay.Tampering;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Patience;
import io.ppmr.transaction.journal.MappedJournal;
import io.ppmr.transaction.journal.TransactionRecord;
import io.ppmr.transport.tcp.Connector;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.FutureTask;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * A source sends the end of an attempt on a connection of its own, which ends after the answer. The next attempt may be
 * under way at the same target by then.
 */
@Timeout(value = 120, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class EarlierAttemptIT {
    private static final Duration LIMIT = Patience.of(Duration.ofSeconds(20));
    private static final int FIRST = 1;

    @TempDir
    private Path directory;

    /** Returns the secret of the only migration, with its name. */
    private TransactionRecord.Secret secret() throws Exception {
        AtomicReference<TransactionRecord.Secret> found = new AtomicReference<>();
        MappedJournal.forEach(directory.resolve("source-journal").resolve(MappedJournal.FILE_NAME), entry -> {
            if (entry.record() instanceof TransactionRecord.Secret secret) {
                found.set(secret);
            }
        });
        return found.get();
    }

    /** Sends the end of the first attempt, as its source does, and returns the answer. */
    private Message endFirstAttempt(ServicePair pair) throws Exception {
        String id = secret().migrationId();
        MigrationSecret shown = secret().secret();
        Connector connector = new Connector(pair.target().address(), ServicePair.KEY, LIMIT);
        BlockingQueue<Message> answers = new LinkedBlockingQueue<>();
        try (ReconnectingLink link = new ReconnectingLink(
                () -> connector,
                "the target",
                FIRST,
                LIMIT,
                new ControlMessage.Participation(id, "", shown),
                (answer, lengthBytes) -> answers.add(answer))) {
            link.send(new ControlMessage.RollBack(id, "the first attempt failed"));
            return answers.poll(LIMIT.toSeconds(), TimeUnit.SECONDS);
        }
    }

    @Test
    void shouldCommitTheSecondAttemptWhenTheEndOfTheFirstArrivesInTheMiddleOfIt() throws Exception {
        try (TamperingRelay relay = new TamperingRelay(Tampering.CUT, true, 2);
                ReplayJob job = new ReplayJob(directory)) {
            Path restored = job.outside("restored");
            Path isSent = job.outside("is-sent");
            job.rank(
                    List.of("open image wcx", "write 1m", "close"),
                    List.of("open image r", "read 1m", "touch " + restored, "await " + isSent, "eof"));
            try (ServicePair pair = new ServicePair(
                    directory, ServicePair.Options.with(job.checkpointer()), List.of(relay.address()))) {
                relay.target(pair.target().address());
                FutureTask<MigrationReport> migration = new FutureTask<>(() -> job.commits(pair));
                Thread thread = new Thread(migration, "migration");
                thread.start();
                Conditions.until("the second attempt restores", () -> Files.exists(restored));
                Message answer = endFirstAttempt(pair);
                assertEquals(ControlMessage.RolledBack.class, answer == null ? null : answer.getClass());
                // The end of that connection is known when the target answers on the next one.
                endFirstAttempt(pair);
                Files.createFile(isSent);
                migration.get(LIMIT.toSeconds(), TimeUnit.SECONDS);
                assertTrue(relay.hasTampered(), "the first attempt failed");
            }
        }
    }
}
