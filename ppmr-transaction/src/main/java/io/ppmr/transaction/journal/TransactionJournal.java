package io.ppmr.transaction.journal;

import java.io.IOException;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;

/** The journal of all migrations of one service. Any thread. */
public interface TransactionJournal extends AutoCloseable {
    /**
     * A record and when it was written.
     *
     * @param atEpochMs wall clock, for people
     */
    record JournalEntry(long atEpochMs, TransactionRecord record) {}

    /**
     * Adds a record; it is on the disk some time later. It survives the service, not the node.
     *
     * @throws IOException the disk is full or broken; then nothing was added
     */
    void append(TransactionRecord record) throws IOException;

    /**
     * Adds a record; it is on the disk when this returns.
     *
     * @throws IOException the disk is full or broken; the step that it belongs to must not be taken
     */
    void appendSynced(TransactionRecord record) throws IOException;

    /**
     * Adds a record of a step as the protocol needs it. What only says since when a source is lost is not waited for.
     *
     * @throws IOException as {@link #appendSynced}
     */
    default void persist(TransactionRecord record) throws IOException {
        if (record instanceof TransactionRecord.LostSource) {
            append(record);
        } else {
            appendSynced(record);
        }
    }

    /** The records of a migration, oldest first. */
    List<TransactionRecord> records(String migrationId) throws IOException;

    /** The migrations to be recovered: those that are open in its records. */
    List<String> open() throws IOException;

    /**
     * The migrations of these records, oldest first, that have a step but no {@link TransactionRecord.Done} after it.
     */
    static List<String> openIn(List<TransactionRecord> records) {
        Set<String> open = new LinkedHashSet<>();
        for (TransactionRecord record : records) {
            if (record instanceof TransactionRecord.Done) {
                open.remove(record.migrationId());
            } else if (record.isStep()) {
                open.add(record.migrationId());
            }
        }
        return List.copyOf(open);
    }

    @Override
    void close() throws IOException;
}
