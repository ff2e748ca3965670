package io.ppmr.transaction;

import io.ppmr.transaction.journal.TransactionJournal;
import io.ppmr.transaction.journal.TransactionRecord;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;

/** A journal in memory. Records that were not synced are lost with the node. Any thread. */
final class InMemoryJournal implements TransactionJournal {
    private final List<TransactionRecord> records = new ArrayList<>();
    private int synced;
    private boolean full;

    @Override
    public synchronized void append(TransactionRecord record) throws IOException {
        if (full) {
            throw new IOException("no space left");
        }
        records.add(record);
    }

    @Override
    public synchronized void appendSynced(TransactionRecord record) throws IOException {
        append(record);
        synced = records.size();
    }

    /** Makes the disk full, or makes room again. */
    public synchronized void full(boolean now) {
        full = now;
    }

    /** Cuts the node's power. */
    public synchronized void crash() {
        records.subList(synced, records.size()).clear();
    }

    @Override
    public synchronized List<TransactionRecord> records(String migrationId) {
        return records.stream()
                .filter(record -> record.migrationId().equals(migrationId))
                .toList();
    }

    @Override
    public synchronized List<String> open() {
        return TransactionJournal.openIn(records);
    }

    @Override
    public void close() {
        // There is no resource to release.
    }
}
