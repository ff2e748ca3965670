package io.ppmr.migration.source;

import io.ppmr.migration.keep.Keeping;
import java.net.InetSocketAddress;
import java.util.List;

/**
 * The order to migrate a job.
 *
 * @param job job of the ranks
 * @param targets the only allowed targets, over which the ranks are spread with neighbours together; empty for the
 *     first configured spare node that accepts all ranks
 * @param askedBy requester, for the history: a user, a signal, a health check
 * @param keep whether a copy of the images is kept
 */
public record MigrationOrder(Job job, List<InetSocketAddress> targets, String askedBy, Keeping.KeepRequest keep) {
    /** Makes an order without a kept copy. */
    public MigrationOrder(Job job, List<InetSocketAddress> targets, String askedBy) {
        this(job, targets, askedBy, Keeping.KeepRequest.NONE);
    }

    public MigrationOrder {
        targets = List.copyOf(targets);
    }
}
