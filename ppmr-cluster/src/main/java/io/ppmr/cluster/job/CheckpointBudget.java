package io.ppmr.cluster.job;

import io.ppmr.protocol.control.CheckpointInterval;
import java.time.Duration;
import java.util.Optional;

/**
 * The operator's limits for regular checkpoints, and the interval that follows from them. Immutable.
 *
 * @param overhead the part of a job's time in which it may be held, from 0 to 1
 * @param nodeMtbf the mean time between failures of one node; empty if the operator did not name it
 * @param leastInterval no interval is shorter
 * @param atOnce how many checkpoints write to one directory at a time
 */
public record CheckpointBudget(double overhead, Optional<Duration> nodeMtbf, Duration leastInterval, int atOnce) {
    /**
     * Returns the time from the start of a checkpoint to the start of the next. An ordered interval is lengthened to
     * the least one, and until holds take no more than the overhead. A derived one is at least Young's: the square root
     * of twice the held time times the mean time between failures of the job's nodes (J. W. Young, A first order
     * approximation to the optimum checkpoint interval, 1974).
     *
     * @param held how long the last checkpoint held the job; empty before the first
     * @param nodes number of the job's nodes
     * @return empty if the job has no regular checkpoints, or if its interval cannot be derived
     */
    Optional<Duration> interval(CheckpointInterval ordered, Optional<Duration> held, int nodes) {
        if (!ordered.isRegular() || whyNot(ordered).isPresent()) {
            return Optional.empty();
        }
        double seconds = Math.max((double) ordered.seconds(), secondsOf(leastInterval));
        if (held.isPresent()) {
            seconds = Math.max(seconds, secondsOf(held.get()) / overhead);
        }
        if (held.isPresent() && ordered.isAuto()) {
            double jobMtbf = secondsOf(nodeMtbf.orElseThrow()) / Math.max(1, nodes);
            seconds = Math.max(seconds, Math.sqrt(2 * secondsOf(held.get()) * jobMtbf));
        }
        return Optional.of(Duration.ofMillis((long) (seconds * 1000)));
    }

    /** Returns why an interval cannot be derived; empty if it can. */
    Optional<String> whyNot(CheckpointInterval ordered) {
        return ordered.isAuto() && nodeMtbf.isEmpty()
                ? Optional.of("an interval of checkpoints cannot be derived (auto), since the controllers have no"
                        + " node_mtbf. Remedy: the operator writes it in [checkpoints] of the controllers' files, or"
                        + " the pods are run with a time (--checkpoint-every 1h)")
                : Optional.empty();
    }

    private static double secondsOf(Duration time) {
        return time.toMillis() / 1000.0;
    }
}
