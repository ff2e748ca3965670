package io.ppmr.transaction.journal;

import java.io.IOException;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;

/** The journal of all migrations of one service. Any thread. */
public interface TransactionJournal extends AutoCloseable {
    /**
     * A record with the time at which it was written.
     *
     * @param atEpochMs wall clock, for people
     */
    record JournalEntry(long atEpochMs, TransactionRecord record) {}

    /**
     * Adds a record, which reaches the disk some time later. It survives a crash of the service, but not of the node.
     *
     * @throws IOException if the disk is full or broken. Then no record was added.
     */
    void append(TransactionRecord record) throws IOException;

    /**
     * Adds a record. It is on the disk when this returns.
     *
     * @throws IOException if the disk is full or broken. Then the record's step must not be taken.
     */
    void appendSynced(TransactionRecord record) throws IOException;

    /**
     * Adds a record of a step, synced if the protocol needs it. The record of a lost source is not synced.
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

    /** Returns the records of a migration, oldest first. */
    List<TransactionRecord> records(String migrationId) throws IOException;

    /** Lists the migrations that must be recovered, because they are open in its records. */
    List<String> open() throws IOException;

    /**
     * Lists the migrations of these records, oldest first, that have a step and no {@link TransactionRecord.Done} after
     * it.
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
