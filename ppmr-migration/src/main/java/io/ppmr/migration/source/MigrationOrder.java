package io.ppmr.migration.source;

import io.ppmr.migration.keep.Keeping;
import java.net.InetSocketAddress;
import java.util.List;

/**
 * The order to migrate a job.
 *
 * @param job whose ranks
 * @param targets these and no others: the ranks are spread over them, neighbours together; empty for the first spare
 *     node that takes them all, as configured
 * @param askedBy for the history: a user, a signal, a health check
 * @param keep whether a copy of the images is kept
 */
public record MigrationOrder(Job job, List<InetSocketAddress> targets, String askedBy, Keeping.KeepRequest keep) {
    /** One of which no copy is kept. */
    public MigrationOrder(Job job, List<InetSocketAddress> targets, String askedBy) {
        this(job, targets, askedBy, Keeping.KeepRequest.NONE);
    }

    public MigrationOrder {
        targets = List.copyOf(targets);
    }
}
