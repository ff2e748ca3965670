package io.ppmr.migration;

import io.ppmr.transaction.journal.FinalOutcome;
import io.ppmr.transaction.journal.TransactionRecord;
import io.ppmr.transaction.operator.OpenMigration;
import io.ppmr.transaction.operator.OperatorDecision;
import io.ppmr.transaction.operator.Resolution;
import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The nodes that open migrations of a service wait for. If the boot of such a node is proved off, the
 * migration ends as by an operator's decision. A boot counts only for a migration that has it in its records: what the
 * node is after it booted again has its own word. For any thread.
 */
public final class LostPeers {
    private static final Logger LOG = LoggerFactory.getLogger(LostPeers.class);
    private static final String BY = "the cluster's controllers";

    /** The two ends of a migration. */
    public enum MigrationEnd {
        SOURCE,
        TARGET
    }

    /** Reads the records of a migration. */
    @FunctionalInterface
    public interface MigrationRecords {
        /** Returns the records, oldest first. */
        List<TransactionRecord> of(String migrationId) throws IOException;
    }

    /** Follows an operator's decision for a migration. */
    @FunctionalInterface
    public interface PeerResolver {
        /** Waits for the answer. */
        Resolution resolve(String id, OperatorDecision decision, boolean carryOut, String by)
                throws IOException, InterruptedException;
    }

    private final MigrationEnd role;
    private final Supplier<List<OpenMigration>> open;
    private final MigrationRecords records;
    private final PeerResolver resolver;
    /** The last line of the log for each open migration. */
    private final Map<String, String> logged = new ConcurrentHashMap<>();

    /**
     * @param role the end of the migrations at which the service is
     * @param open the migrations that wait for a peer
     */
    public LostPeers(
            MigrationEnd role, Supplier<List<OpenMigration>> open, MigrationRecords records, PeerResolver resolver) {
        this.role = role;
        this.open = open;
        this.records = records;
        this.resolver = resolver;
    }

    /** Returns the boot IDs of the nodes that open migrations wait for. */
    public Set<String> boots() throws IOException {
        Set<String> boots = new TreeSet<>();
        for (OpenMigration migration : open.get()) {
            if (migration.waitsFor() != null) {
                peers(records.of(migration.id())).forEach(peer -> boots.add(peer.bootId()));
            }
        }
        return boots;
    }

    /** Ends the migrations that wait for nodes of which these boots ended, as far as that decides them. */
    public void ended(Set<String> boots) throws IOException, InterruptedException {
        List<OpenMigration> all = open.get();
        logged.keySet().retainAll(all.stream().map(OpenMigration::id).collect(Collectors.toSet()));
        for (OpenMigration migration : all) {
            try {
                end(migration, boots);
            } catch (IOException | RuntimeException e) {
                // The others must not wait for this one. It is tried again with the next answer of the controller.
                LOG.warn("migration {} does not end by the end of its peer: {}", migration.id(), e.getMessage());
            }
        }
    }

    private void end(OpenMigration migration, Set<String> boots) throws IOException, InterruptedException {
        Optional<OperatorDecision> decision = migration.waitsFor() == null
                ? Optional.empty()
                : decisionFor(role, migration.phase(), records.of(migration.id()), boots);
        if (decision.isEmpty()) {
            return;
        }
        Resolution answer = resolver.resolve(migration.id(), decision.get(), true, BY);
        // A refused decision is tried again, since its cause may end, but each cause is logged once.
        if (!answer.text().equals(logged.put(migration.id(), answer.text()))) {
            LOG.info("migration {}: {}", migration.id(), answer.text());
        }
    }

    /**
     * Returns the decision that follows from the end of boots.
     *
     * @param phase the phase of the migration, in the words of the tables
     * @param boots the boots that ended
     */
    static Optional<OperatorDecision> decisionFor(
            MigrationEnd role, String phase, List<TransactionRecord> records, Set<String> boots) {
        Set<String> off = peers(records).stream()
                .filter(peer -> boots.contains(peer.bootId()))
                .map(TransactionRecord.PeerNode::peer)
                .collect(Collectors.toSet());
        if (off.isEmpty()) {
            return Optional.empty();
        }
        if (role == MigrationEnd.TARGET) {
            // The first target takes over. The others wait for it, and their rules refuse this decision.
            return phase.equals("PREPARED")
                    ? Optional.of(new OperatorDecision(FinalOutcome.COMMITTED, Set.of(), true, false))
                    : Optional.empty();
        }
        return switch (phase) {
            case "CONFIRMING", "ROLLING_BACK" ->
                Optional.of(new OperatorDecision(FinalOutcome.ROLLED_BACK, off, false, false));
            case "COMMITTING" -> Optional.of(new OperatorDecision(FinalOutcome.COMMITTED, off, false, false));
            // BROKEN: an original is gone, and a person must decide what that means.
            default -> Optional.empty();
        };
    }

    /** Returns the peers of the last attempt whose boots are known. */
    private static List<TransactionRecord.PeerNode> peers(List<TransactionRecord> records) {
        List<TransactionRecord.PeerNode> all = records.stream()
                .filter(TransactionRecord.PeerNode.class::isInstance)
                .map(TransactionRecord.PeerNode.class::cast)
                .toList();
        int last =
                all.stream().mapToInt(TransactionRecord.PeerNode::attempt).max().orElse(0);
        return all.stream()
                .filter(peer -> peer.attempt() == last && !peer.bootId().isEmpty())
                .toList();
    }
}
