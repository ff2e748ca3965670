package io.ppmr.source;

import java.net.InetSocketAddress;
import java.util.List;

/**
 * What is to be moved where, and who wants it.
 *
 * @param job whose ranks
 * @param targets these and no others: the ranks are spread over them, neighbours together; empty for the first spare
 *     node that takes them all, as configured
 * @param askedBy for the history: a user, a signal, a health check
 */
public record MigrationOrder(Job job, List<InetSocketAddress> targets, String askedBy) {
    public MigrationOrder {
        targets = List.copyOf(targets);
    }
}
