package io.ppmr.source;

import java.net.InetSocketAddress;
import java.util.List;

/**
 * What is to be moved where, and who wants it.
 *
 * @param job whose ranks
 * @param targets those that take part at first: the ranks are spread over them, neighbours together
 * @param spares who takes the place of one that fails, in this order
 * @param askedBy for the history: a user, a signal, a health check
 */
public record MigrationOrder(
        Job job, List<InetSocketAddress> targets, List<InetSocketAddress> spares, String askedBy) {
    public MigrationOrder {
        targets = List.copyOf(targets);
        spares = List.copyOf(spares);
        if (targets.isEmpty()) {
            throw new IllegalArgumentException("a migration without a target: name one, or configure a spare node");
        }
    }
}
