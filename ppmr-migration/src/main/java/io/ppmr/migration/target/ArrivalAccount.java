package io.ppmr.migration.target;

import io.ppmr.protocol.control.ControlMessage.Begin;
import io.ppmr.protocol.control.JobFacts;
import io.ppmr.protocol.data.DataMessage;
import io.ppmr.target.image.Staging;
import io.ppmr.target.session.Transfer;
import io.ppmr.transaction.journal.FinalOutcome;

/** The account of a migration from its beginning here, for status queries. Any thread. */
final class ArrivalAccount {
    private static final DataMessage.Progress NOTHING = new DataMessage.Progress(0, 0, 0);
    private static final double NS_A_SECOND = 1e9;

    private final Begin begin;
    private final String source;
    private final long expectedBytes;
    private final long retainedBytes;
    private final long startNs = System.nanoTime();
    private volatile Transfer transfer;

    /** @param retained whether its image waits here as a whole, except for streamed memory */
    ArrivalAccount(Begin begin, String source, JobFacts job, boolean retained) {
        this.begin = begin;
        this.source = source;
        this.expectedBytes = job.residentBytes() + begin.transfer().carriedBytes();
        this.retainedBytes = begin.transfer().carriedBytes() + (retained ? job.waitingBytes() : 0);
    }

    /** Adds the transfer, whose bytes begin to arrive. */
    void add(Transfer begun) {
        transfer = begun;
    }

    /** Returns the memory that its ranks, its page map and, with staging in memory, its image still need. */
    long promisedMemoryBytes(boolean stagingInMemory) {
        DataMessage.Progress progress = progress();
        long stagingBytes = promisedStagingBytes();
        long mapBytes = stagingBytes > 0 ? Staging.mapBytes(stagingBytes) : 0;
        return left(progress.readBytes()) + mapBytes + (stagingInMemory ? stagingBytes : 0);
    }

    /** Returns the bytes that it still needs in staging. */
    long promisedStagingBytes() {
        return Math.max(0, retainedBytes - progress().stagedBytes());
    }

    private long left(long doneBytes) {
        return Math.max(0, expectedBytes - doneBytes);
    }

    private DataMessage.Progress progress() {
        Transfer coming = transfer;
        return coming == null ? NOTHING : coming.lastProgress();
    }

    /** Returns its progress. */
    Arrival arrival(TargetMigration migration) {
        DataMessage.Progress progress = progress();
        double seconds = (System.nanoTime() - startNs) / NS_A_SECOND;
        return new Arrival(
                begin.migrationId(),
                begin.job(),
                source,
                step(migration),
                seconds,
                expectedBytes,
                progress.arrivedBytes(),
                progress.readBytes(),
                progress.stagedBytes(),
                progress.arrivedBytes() / Math.max(seconds, 1 / NS_A_SECOND));
    }

    /** Returns the progress of a recovered migration. Its bytes arrived in an earlier run of the service. */
    static Arrival recovered(TargetMigration migration) {
        return new Arrival(migration.id(), "", "", step(migration), 0, 0, 0, 0, 0, 0);
    }

    private static Arrival.ArrivalStep step(TargetMigration migration) {
        if (migration.outcome().isPresent()) {
            return migration.outcome().get() == FinalOutcome.COMMITTED
                    ? Arrival.ArrivalStep.COMMITTED
                    : Arrival.ArrivalStep.ROLLED_BACK;
        }
        return migration.isPrepared() ? Arrival.ArrivalStep.HELD : Arrival.ArrivalStep.ARRIVING;
    }
}
