package io.ppmr.migration.source;

import io.ppmr.migration.keep.Keeping;
import java.net.InetSocketAddress;
import java.util.List;
import java.util.OptionalLong;

/**
 * The order to migrate a job.
 *
 * @param job job of the ranks
 * @param targets the only allowed targets, over which the ranks are spread with neighbours together; empty for the
 *     first configured spare node that accepts all ranks
 * @param askedBy requester, for the history: a user, a signal, a health check
 * @param keep whether a copy of the images is kept
 * @param untilNs the time of System.nanoTime() by which the job should be moved, because its node fails; empty if it
 *     may take any time. It decides how memory is copied, and ends no migration.
 */
public record MigrationOrder(
        Job job, List<InetSocketAddress> targets, String askedBy, Keeping.KeepRequest keep, OptionalLong untilNs) {
    /** Makes an order that may take any time. */
    public MigrationOrder(Job job, List<InetSocketAddress> targets, String askedBy, Keeping.KeepRequest keep) {
        this(job, targets, askedBy, keep, OptionalLong.empty());
    }

    /** Makes an order without a kept copy, which may take any time. */
    public MigrationOrder(Job job, List<InetSocketAddress> targets, String askedBy) {
        this(job, targets, askedBy, Keeping.KeepRequest.NONE);
    }

    public MigrationOrder {
        targets = List.copyOf(targets);
    }
}
