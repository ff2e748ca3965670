package io.ppmr.migration;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.ppmr.transaction.journal.FinalOutcome;
import io.ppmr.transaction.journal.TransactionRecord;
import io.ppmr.transaction.operator.OpenMigration;
import io.ppmr.transaction.operator.OperatorDecision;
import io.ppmr.transaction.operator.Resolution;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.junit.jupiter.api.Test;

/** The decisions for open migrations when the boot of a lost node is proved off. */
class LostPeersTest {
    private static final String FIRST = "0123abcd-0123-0123-0123-000000000001";
    private static final String SECOND = "0123abcd-0123-0123-0123-000000000002";
    private static final List<TransactionRecord> RECORDS = List.of(
            new TransactionRecord.PeerNode("m", 1, "a:1", 10, "0123abcd-0123-0123-0123-00000000000f"),
            new TransactionRecord.PeerNode("m", 2, "b:1", 10, FIRST),
            new TransactionRecord.PeerNode("m", 2, "c:1", 10, SECOND),
            new TransactionRecord.PeerNode("m", 2, "d:1", 9, ""));

    private static Optional<OperatorDecision> decision(LostPeers.MigrationEnd role, String phase, String... boots) {
        return LostPeers.decisionFor(role, phase, RECORDS, Set.of(boots));
    }

    private static Optional<OperatorDecision> atSource(FinalOutcome outcome, String... off) {
        return Optional.of(new OperatorDecision(outcome, Set.of(off), false, false));
    }

    @Test
    void shouldDecideAsAnOperatorWouldWhenAPeerIsOff() {
        LostPeers.MigrationEnd source = LostPeers.MigrationEnd.SOURCE;
        assertEquals(atSource(FinalOutcome.ROLLED_BACK, "b:1"), decision(source, "CONFIRMING", FIRST));
        assertEquals(atSource(FinalOutcome.ROLLED_BACK, "b:1", "c:1"), decision(source, "ROLLING_BACK", FIRST, SECOND));
        assertEquals(atSource(FinalOutcome.COMMITTED, "c:1"), decision(source, "COMMITTING", SECOND));
        assertEquals(
                Optional.of(new OperatorDecision(FinalOutcome.COMMITTED, Set.of(), true, false)),
                decision(LostPeers.MigrationEnd.TARGET, "PREPARED", FIRST));
    }

    @Test
    void shouldDecideNothingWhenAPersonMustOrWhenTheBootIsOfAnotherAttemptOrUnknown() {
        for (String phase : List.of("BROKEN", "PREPARING", "COMMITTED", "ROLLED_BACK")) {
            assertEquals(Optional.empty(), decision(LostPeers.MigrationEnd.SOURCE, phase, FIRST), phase);
        }
        assertEquals(Optional.empty(), decision(LostPeers.MigrationEnd.TARGET, "TAKEN_OVER", FIRST));
        for (LostPeers.MigrationEnd role : LostPeers.MigrationEnd.values()) {
            for (String phase : List.of("CONFIRMING", "COMMITTING", "PREPARED")) {
                assertEquals(Optional.empty(), decision(role, phase, "0123abcd-0123-0123-0123-00000000000f", ""));
            }
        }
    }

    @Test
    void shouldAskOnlyForMigrationsThatWaitForAPeer() throws Exception {
        List<OpenMigration> open = List.of(
                new OpenMigration("m", "CONFIRMING", false, List.of(0), 1, "b:1"),
                new OpenMigration("other", "CONFIRMING", true, List.of(0), 1, null));
        List<String> resolved = new ArrayList<>();
        LostPeers peers = new LostPeers(
                LostPeers.MigrationEnd.SOURCE, () -> open, id -> RECORDS, (id, decision, carryOut, by) -> {
                    resolved.add(id + " " + decision.targetsOff() + " " + carryOut);
                    return new Resolution(id, Resolution.ResolutionResult.DONE, "done");
                });
        assertEquals(Set.of(FIRST, SECOND), peers.boots());
        peers.ended(Set.of(FIRST));
        assertEquals(List.of("m [b:1] true"), resolved);
    }

    @Test
    void shouldEndTheOtherMigrationsWhenOneFails() throws Exception {
        List<OpenMigration> open = List.of(
                new OpenMigration("broken", "CONFIRMING", false, List.of(0), 1, "b:1"),
                new OpenMigration("m", "CONFIRMING", false, List.of(0), 1, "b:1"));
        List<String> resolved = new ArrayList<>();
        LostPeers peers = new LostPeers(
                LostPeers.MigrationEnd.SOURCE, () -> open, id -> RECORDS, (id, decision, carryOut, by) -> {
                    if (id.equals("broken")) {
                        throw new IOException("its journal cannot be read");
                    }
                    resolved.add(id);
                    return new Resolution(id, Resolution.ResolutionResult.DONE, "done");
                });
        peers.ended(Set.of(FIRST));
        assertEquals(List.of("m"), resolved);
    }
}
