package io.ppmr.daemon.service;

import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;

/**
 * The choices of a request to move a job. Immutable.
 *
 * @param to the targets of the ranks, or empty for the configured spare nodes
 * @param keep the directory in which a copy of the images is kept, or empty for the job's own, if it has one
 * @param untilNs the time of System.nanoTime() by which the job should be moved, or empty if it may take any time
 * @param withoutCluster whether a job over several nodes is moved even if no controller can note it
 */
public record MoveOptions(
        List<InetSocketAddress> to, Optional<Path> keep, OptionalLong untilNs, boolean withoutCluster) {
    /** The choices of the configuration. */
    public static final MoveOptions NONE = new MoveOptions(List.of(), Optional.empty(), OptionalLong.empty());

    /** Makes options of a move that a controller notes. */
    public MoveOptions(List<InetSocketAddress> to, Optional<Path> keep, OptionalLong untilNs) {
        this(to, keep, untilNs, false);
    }

    public MoveOptions {
        to = List.copyOf(to);
    }

    /** Returns the configuration's choice, with a time that begins now. */
    public static MoveOptions within(Optional<Duration> time) {
        return of(List.of(), Optional.empty(), time);
    }

    /** Returns options with a time that begins now. */
    public static MoveOptions of(List<InetSocketAddress> to, Optional<Path> keep, Optional<Duration> time) {
        return new MoveOptions(
                to,
                keep,
                time.map(limit -> OptionalLong.of(System.nanoTime() + limit.toNanos()))
                        .orElse(OptionalLong.empty()));
    }

    /** Returns the same options for a job that is moved even if no controller can note it. */
    public MoveOptions withoutCluster(boolean isWithout) {
        return new MoveOptions(to, keep, untilNs, isWithout);
    }
}
