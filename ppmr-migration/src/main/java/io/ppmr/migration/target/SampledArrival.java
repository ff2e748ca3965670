package io.ppmr.migration.target;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.bufferpool.ChunkState;
import io.ppmr.migration.samples.SampledMigration;
import io.ppmr.migration.samples.SampledValue;
import io.ppmr.target.image.RankImage;
import io.ppmr.target.session.Transfer;
import io.ppmr.transaction.journal.FinalOutcome;
import java.util.Optional;
import java.util.function.Supplier;
import java.util.function.ToLongFunction;

/** The sampled values of an attempt that arrives. Any thread, also after the transfer was closed. */
final class SampledArrival implements SampledMigration {
    private static final long UNKNOWN = -1;

    private final Transfer transfer;
    private final BufferPool pool;
    private final Supplier<Optional<FinalOutcome>> outcome;

    /** @param outcome returns the outcome once there is one; the job is stopped until then */
    SampledArrival(Transfer transfer, BufferPool pool, Supplier<Optional<FinalOutcome>> outcome) {
        this.transfer = transfer;
        this.pool = pool;
        this.outcome = outcome;
    }

    @Override
    public long bytes(SampledValue value) {
        return switch (value) {
            case ARRIVED -> sum(RankImage::arrivedBytes);
            case READ -> sum(RankImage::readBytes);
            case STAGED -> transfer.lastProgress().stagedBytes();
            case POOL ->
                (long) (pool.geometry().chunkCount() - pool.chunks(ChunkState.FREE))
                        * pool.geometry().chunkBytes();
            default -> UNKNOWN;
        };
    }

    private long sum(ToLongFunction<RankImage> of) {
        return transfer.images().ranks().stream().mapToLong(of).sum();
    }

    @Override
    public void ranks(RankValues each) {
        for (RankImage rank : transfer.images().ranks()) {
            each.take(SampledValue.ARRIVED, rank.rank(), rank.arrivedBytes());
            each.take(SampledValue.READ, rank.rank(), rank.readBytes());
        }
    }

    @Override
    public boolean isPaused() {
        return outcome.get().isEmpty();
    }
}
