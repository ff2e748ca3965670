package io.ppmr.migration.source;

import io.ppmr.migration.source.JobHooks.JobNotes;
import io.ppmr.transaction.journal.PlannedRank;
import io.ppmr.transaction.journal.TransactionRecord;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.BiFunction;

/** Makes a migration of what the journal has of it: an earlier run of the service has begun it. */
final class RecordedMigration {
    private RecordedMigration() {}

    /**
     * A migration that is carried on. It makes no further attempt. May block.
     *
     * @param records what the journal has of it
     * @param jobs what is known of a job by its name and ranks
     * @param reported told its report
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
            if (one instanceof TransactionRecord.Asked asked) {
                name = asked.job();
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
                // What an earlier run was keeping is not whole, and is removed already.
                coordinator -> coordinator.recover(records, service.clock().getAsLong()),
                reported);
        migration.isRecorded();
        return migration;
    }
}
