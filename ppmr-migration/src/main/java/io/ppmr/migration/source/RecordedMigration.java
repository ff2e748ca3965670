package io.ppmr.migration.source;

import io.ppmr.migration.source.JobHooks.JobNotes;
import io.ppmr.transaction.journal.PlannedRank;
import io.ppmr.transaction.journal.TransactionRecord;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.BiFunction;

/** Makes a migration from the journal's records of an earlier run of the service. */
final class RecordedMigration {
    private RecordedMigration() {}

    /**
     * Returns a migration that is continued, and makes no further attempt. May block.
     *
     * @param records its records in the journal
     * @param jobs returns the facts of a job from its name and ranks
     * @param reported listener for its report
     */
    static SourceMigration of(
            SourceContext service,
            MigrationRecord record,
            List<TransactionRecord> records,
            BiFunction<String, List<Integer>, JobNotes> jobs,
            Cancellation cancellation,
            ReportListener reported) {
        String id = record.migrationId();
        String name = "";
        int attempt = 0;
        List<String> participants = List.of();
        Map<Integer, PlannedRank> ranks = new TreeMap<>();
        for (TransactionRecord one : records) {
            if (one instanceof TransactionRecord.Requested requested) {
                name = requested.job();
            } else if (one instanceof TransactionRecord.Begun begun) {
                attempt = begun.attempt();
                participants = begun.participants();
                begun.originals().forEach(rank -> ranks.put(rank.rank(), rank));
            } else if (one instanceof TransactionRecord.Sealed sealed) {
                sealed.held().forEach(rank -> ranks.put(rank.rank(), rank));
            }
        }
        List<PlannedRank> held = List.copyOf(ranks.values());
        OriginalRanks originals = OriginalRanks.recorded(
                id,
                service.processes(),
                service.surroundings(),
                service.names(id),
                service.settings().node().workDirectory(),
                held,
                records);
        JobNotes job = jobs.apply(name, List.copyOf(ranks.keySet()));
        RecordedAttempts attempts = new RecordedAttempts(MigrationPlan.recorded(participants, held));
        SourceMigration migration = new SourceMigration(
                new SourceMigration.Parts(
                        service,
                        record,
                        job,
                        TransactionRecord.Secret.of(records),
                        originals,
                        new HookRunner(id, job, service, true),
                        cancellation),
                made -> attempts,
                attempt,
                // An incomplete copy of an earlier run is already removed.
                coordinator -> coordinator.recover(records, service.clock().getAsLong()),
                reported);
        migration.markRecovered();
        return migration;
    }
}
