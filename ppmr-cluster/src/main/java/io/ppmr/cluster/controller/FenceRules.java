package io.ppmr.cluster.controller;

import io.ppmr.cluster.record.NodeStatus;
import java.time.Duration;
import java.util.Collection;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import java.util.Set;

/** The rules by which the active controller fences nodes without an operator, as pure functions. */
final class FenceRules {
    /** No command starts later after the probe that got no answer: this controller may have been frozen. */
    static final Duration START_LIMIT = Duration.ofSeconds(5).plus(NodeTable.WITNESS_LIMIT);

    /** The time for which a fenced node counts as one that is SUSPECT. */
    static final Duration COUNTED = Duration.ofHours(1);

    /** SILENT and UNKNOWN, too: a fault of the network shows in them before it shows in SUSPECT. */
    private static final Set<NodeStatus> LOST =
            Set.of(NodeStatus.SILENT, NodeStatus.UNKNOWN, NodeStatus.SUSPECT, NodeStatus.FENCING);

    /** So many nodes may be lost in a cluster of any size. */
    private static final int FEW_NODES = 2;

    /** Of more nodes, at most one in so many may be lost. */
    private static final int ONE_IN = 20;

    private FenceRules() {}

    /**
     * The limits of a site.
     *
     * @param delay how long a node is SUSPECT before it is fenced
     * @param deadline time limit of the command
     * @param mostAnHour how many fences begin within an hour at most
     */
    record FenceLimits(Duration delay, Duration deadline, int mostAnHour) {}

    /**
     * A node, as far as fences depend on it.
     *
     * @param host its name
     * @param state its state
     * @param suspectNs the beginning of its delay, by the clock of the controller
     * @param fencesMs its last fences, in milliseconds since 1970
     * @param hasBoot whether its boot is known, and so what the command would prove off
     */
    record FenceCandidate(String host, NodeStatus state, long suspectNs, List<Long> fencesMs, boolean hasBoot) {}

    /**
     * The fences that are due.
     *
     * @param hosts the nodes to fence now, the longest silent first
     * @param heldBack why others are not fenced though their delay is over; empty if none is
     */
    record DueFences(List<String> hosts, Optional<String> heldBack) {}

    /** Returns the nodes to fence at this time. */
    static DueFences due(Collection<FenceCandidate> nodes, FenceLimits limits, long nowNs, long nowMs) {
        List<String> due = nodes.stream()
                .filter(node -> node.state() == NodeStatus.SUSPECT
                        && node.hasBoot()
                        && nowNs - node.suspectNs() >= limits.delay().toNanos())
                .sorted(Comparator.comparingLong(FenceCandidate::suspectNs).thenComparing(FenceCandidate::host))
                .map(FenceCandidate::host)
                .toList();
        if (due.isEmpty()) {
            return new DueFences(List.of(), Optional.empty());
        }
        long fenced = nodes.stream()
                .mapToLong(node -> fencesWithinTheHour(node.fencesMs(), nowMs))
                .sum();
        long lost = nodes.stream()
                .filter(node -> LOST.contains(node.state()) || fencesWithinTheHour(node.fencesMs(), nowMs) > 0)
                .count();
        if (lost > FEW_NODES && lost * ONE_IN > nodes.size()) {
            return new DueFences(
                    List.of(),
                    Optional.of(lost + " of " + nodes.size() + " nodes are lost, or were fenced within the hour,"
                            + " which looks like a fault of the network; not fenced: " + String.join(", ", due)));
        }
        int left = (int) Math.max(0, limits.mostAnHour() - fenced);
        List<String> now = due.subList(0, Math.min(left, due.size()));
        List<String> later = due.subList(now.size(), due.size());
        return new DueFences(
                now,
                later.isEmpty()
                        ? Optional.empty()
                        : Optional.of(fenced + " fences began within the hour (most_an_hour = " + limits.mostAnHour()
                                + "); not fenced: " + String.join(", ", later)));
    }

    /** Returns how many fences count at this time. */
    static long fencesWithinTheHour(List<Long> fencesMs, long nowMs) {
        return fencesMs.stream()
                .filter(begun -> nowMs - begun < COUNTED.toMillis())
                .count();
    }

    /** Returns true if the command may still start, so long after the probe that got no answer. */
    static boolean mayStart(long provedNs, long nowNs) {
        return nowNs - provedNs <= START_LIMIT.toNanos();
    }
}
