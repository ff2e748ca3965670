package io.ppmr.migration.samples;

/** A migration whose values are sampled while it runs. Called on the sampler's thread; never blocks. */
public interface SampledMigration {
    /** Receives the bytes of one rank. */
    @FunctionalInterface
    interface RankValues {
        void take(SampledValue value, int rank, long bytes);
    }

    /** Returns a value of the whole job, or -1 if this side does not have it. */
    long bytes(SampledValue value);

    /** Passes the values of each rank that this side has. */
    void ranks(RankValues each);

    /** Returns whether the job is stopped now. Nothing is written to the disk while it is. */
    boolean isPaused();
}
