package io.ppmr.daemon.service;

import io.ppmr.transaction.journal.FinalOutcome;
import io.ppmr.transaction.journal.MappedJournal;
import io.ppmr.transaction.journal.TransactionRecord;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Instant;
import java.time.ZoneId;
import java.time.format.DateTimeFormatter;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Finds in a source's journal where a job was moved to. It is safe for any thread. */
public final class MovedJobs {
    private static final Logger LOG = LoggerFactory.getLogger(MovedJobs.class);
    private static final DateTimeFormatter TIME =
            DateTimeFormatter.ofPattern("yyyy-MM-dd HH:mm:ss", Locale.ROOT).withZone(ZoneId.systemDefault());

    private final Path journal;

    /** @param folder the directory of the journal */
    public MovedJobs(Path folder) {
        journal = folder.resolve(MappedJournal.FILE_NAME);
    }

    /** Returns the last move of a job, with destination, time and migration. Returns empty if there is none. */
    public Optional<String> lastMove(String job) {
        Map<String, List<String>> targets = new HashMap<>();
        Map<String, String> jobs = new HashMap<>();
        String[] last = {null};
        try {
            MappedJournal.forEach(journal, entry -> {
                TransactionRecord record = entry.record();
                String id = record.migrationId();
                if (record instanceof TransactionRecord.Requested requested) {
                    jobs.put(id, requested.job());
                } else if (record instanceof TransactionRecord.Begun begun && job.equals(jobs.get(id))) {
                    targets.put(id, begun.participants());
                } else if (record instanceof TransactionRecord.Done done
                        && done.outcome() == FinalOutcome.COMMITTED
                        && job.equals(jobs.get(id))) {
                    last[0] = "to " + String.join(", ", targets.getOrDefault(id, List.of("another node"))) + " at "
                            + TIME.format(Instant.ofEpochMilli(entry.atEpochMs())) + " (migration "
                            + MigrationText.shortened(id) + ")";
                }
            });
        } catch (IOException e) {
            LOG.warn("job {}: its last move is not looked up: {}", job, e.getMessage());
        }
        return Optional.ofNullable(last[0]);
    }
}
