package io.ppmr.transaction.journal;

import java.io.IOException;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * The open migrations of a journal's file, from one pass over its records in their order. Migrations that ended take no
 * memory. Owned by {@link MappedJournal}, under its lock.
 */
final class JournalIndex {
    private final Set<String> open = new LinkedHashSet<>();
    /** Open migrations whose first step is none that a migration can begin with. */
    private final Set<String> headless = new HashSet<>();
    /** Offset of the first record that precedes a step of its migration, as for a vote. */
    private final Map<String, Integer> prefaces = new HashMap<>();

    /** Notes the next record. */
    void note(TransactionJournal.JournalEntry entry, int offset) {
        TransactionRecord record = entry.record();
        String id = record.migrationId();
        if (record instanceof TransactionRecord.Done) {
            open.remove(id);
            headless.remove(id);
            prefaces.remove(id);
        } else if (record.isStep()) {
            if (open.add(id) && !record.isBeginning()) {
                headless.add(id);
            }
            prefaces.remove(id);
        } else if (isPreface(record)) {
            prefaces.putIfAbsent(id, offset);
        }
    }

    private static boolean isPreface(TransactionRecord record) {
        return record instanceof TransactionRecord.JobStopped
                || record instanceof TransactionRecord.JobPlacement
                || record instanceof TransactionRecord.Secret
                || record instanceof TransactionRecord.PeerNode;
    }

    /** Lists the migrations that have a step and no {@link TransactionRecord.Done} after it, oldest first. */
    List<String> open() {
        return List.copyOf(open);
    }

    /**
     * Returns true if the next file must contain this record. The record belongs to an open migration, or precedes a
     * step that may not have fitted into this file.
     */
    boolean needs(TransactionRecord record, int offset) {
        String id = record.migrationId();
        return open.contains(id) || (isPreface(record) && offset >= prefaces.getOrDefault(id, Integer.MAX_VALUE));
    }

    /**
     * Requires that the steps of each open migration start with its beginning. Otherwise participants and processes are
     * unknown, and an empty list of them fulfils every condition on all of them.
     */
    void requireBeginnings(Path path) throws IOException {
        if (!headless.isEmpty()) {
            throw new IOException("the journal " + path + " is damaged: it has steps of migration "
                    + headless.iterator().next() + " without its beginning. Nothing was changed."
                    + " Check the migration's copies and processes by hand, then move the journal away");
        }
    }
}
