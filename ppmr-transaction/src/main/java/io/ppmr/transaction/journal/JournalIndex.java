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
 * The open migrations of a journal's file, by one look at each of its records in their order. What has ended takes no
 * room here. Owned by {@link MappedJournal}, under its lock.
 */
final class JournalIndex {
    private final Set<String> open = new LinkedHashSet<>();
    /** The open ones whose first step is none that a migration begins with. */
    private final Set<String> headless = new HashSet<>();
    /** The offsets at which records begin that were written before a step of their migration, as those of a vote. */
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
                || record instanceof TransactionRecord.Secret;
    }

    /** Lists the migrations that have a step but no {@link TransactionRecord.Done} after it, oldest first. */
    List<String> open() {
        return List.copyOf(open);
    }

    /**
     * Returns true if a further file must have a record: it is of an open migration, or precedes a step that may be
     * what has no room in this file.
     */
    boolean needs(TransactionRecord record, int offset) {
        String id = record.migrationId();
        return open.contains(id) || (isPreface(record) && offset >= prefaces.getOrDefault(id, Integer.MAX_VALUE));
    }

    /**
     * Throws where the steps of an open migration do not start with its beginning. Participants and processes are then
     * unknown, and an empty list of them fulfils every condition on all of them.
     */
    void requireBeginnings(Path path) throws IOException {
        if (!headless.isEmpty()) {
            throw new IOException("the journal " + path + " has steps of migration "
                    + headless.iterator().next() + " and not its beginning: it is damaged, and nothing is done with it."
                    + " Look at its copies and at the processes by hand, then move it away");
        }
    }
}
