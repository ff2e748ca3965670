package io.ppmr.migration.samples;

/** The values of a migration that are sampled over time, in bytes. Files have their names: never change one. */
public enum SampledValue {
    /** Bytes that checkpointers wrote. */
    WRITTEN,
    /** Bytes that were sent to the target. */
    SENT,
    /** Bytes that arrived at the target. */
    ARRIVED,
    /** Bytes that restarts read. */
    READ,
    /** Bytes that had to wait in staging. */
    STAGED,
    /** Bytes of the chunks of this node's pool that are not free. */
    POOL
}
