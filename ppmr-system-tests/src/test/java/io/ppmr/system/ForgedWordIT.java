package io.ppmr.system;

import static io.ppmr.system.KillablePair.SOURCE;
import static io.ppmr.system.KillablePair.TARGET;
import static org.junit.jupiter.api.Assertions.assertEquals;

import io.ppmr.migration.ReconnectingLink;
import io.ppmr.protocol.control.ControlMessage;
import io.ppmr.protocol.control.MigrationSecret;
import io.ppmr.protocol.control.VoterState;
import io.ppmr.testbed.Conditions;
import io.ppmr.transport.auth.PreSharedKey;
import io.ppmr.transport.tcp.Connector;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * A node that has the key and takes no part in a migration sends messages about it. A job has held copies, and its
 * source is only silent. The forged messages neither end nor double the job.
 */
@Timeout(value = 240, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class ForgedWordIT {
    private static final Duration LIMIT = Duration.ofSeconds(30);

    @TempDir
    private Path directory;

    private final List<String> answers = new CopyOnWriteArrayList<>();

    /**
     * Sends it with a secret that is not the migration's.
     *
     * @param participant the sender's identity, or empty for the source of the migration
     */
    private void forge(KillablePair pair, Path key, String participant, ControlMessage.OfTransaction word)
            throws Exception {
        int port =
                Integer.parseInt(pair.targetName().substring(pair.targetName().indexOf(':') + 1));
        Connector connector = new Connector(
                new InetSocketAddress(InetAddress.getLoopbackAddress(), port), PreSharedKey.load(key), LIMIT);
        int refusals = refusals(pair);
        try (ReconnectingLink link = new ReconnectingLink(
                () -> connector,
                pair.targetName(),
                1,
                LIMIT,
                new ControlMessage.Participation(word.migrationId(), participant, MigrationSecret.random()),
                (answer, lengthBytes) -> answers.add(answer.toString()))) {
            link.send(word);
            Conditions.until(
                    "the target answers, or says why it does not",
                    () -> !answers.isEmpty() || refusals(pair) > refusals);
        }
    }

    private static int refusals(KillablePair pair) throws Exception {
        return pair.service(TARGET).log().split("wrong migration secret", -1).length;
    }

    @Test
    void shouldBelieveOnlyWhoKnowsTheMigrationsSecretWhenTheSourceIsSilent() throws Exception {
        Path folder = Files.createTempDirectory(directory, "pair");
        try (KillablePair pair = new KillablePair(folder, "");
                LedgerJob job = pair.job()) {
            String id = pair.voted(job);
            Path key = folder.resolve("key");
            forge(pair, key, "", new ControlMessage.RollBack(id, "forged"));
            forge(pair, key, "", new ControlMessage.Commit(id));
            forge(pair, key, "", new ControlMessage.Confirm(id));
            // The participant is one of this attempt, and then none.
            for (String participant : List.of(pair.targetName(), "127.0.0.1:9")) {
                forge(pair, key, participant, new ControlMessage.StatusQuery(id, 1, 60_000));
                forge(pair, key, participant, new ControlMessage.TakeOver(id));
                for (VoterState state : VoterState.values()) {
                    forge(pair, key, participant, new ControlMessage.ParticipantStatus(id, state, 0));
                }
                forge(pair, key, participant, new ControlMessage.Committed(id));
                forge(pair, key, participant, new ControlMessage.Commit(id));
                forge(pair, key, participant, new ControlMessage.RollBack(id, "forged"));
            }
            assertEquals(List.of(), answers);
            job.standsStill();
            pair.service(SOURCE).thaw();
            job.runsThere();
        }
    }
}
