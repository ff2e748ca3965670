package io.ppmr.migration.source;

import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.checkpoint.Fence;
import io.ppmr.migration.node.JobFiles;
import io.ppmr.migration.node.NodeSettings;
import io.ppmr.os.config.Key;
import io.ppmr.transport.auth.PeerAuthenticator;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Optional;

/**
 * The settings of a source's service, resolved once. Immutable.
 *
 * @param node those that a target has, too
 * @param journal the directory of the journal
 * @param pool size of the pool and its chunks
 * @param authenticator how peers prove themselves
 * @param spares where the spare nodes' services listen, in the order in which they are asked
 * @param connecting how a target is connected to
 * @param limits of each migration
 * @param rateTime over how much of the time that a checkpoint could write its least rate is counted
 * @param rankFiles how many files the processes of a rank may have open or mapped in all; as many threads
 * @param fence how a lost target is proved off; without it its voters are waited for
 * @param files what is expected of files that each node has for itself
 */
public record SourceSettings(
        NodeSettings node,
        Path journal,
        PoolGeometry pool,
        PeerAuthenticator authenticator,
        SpareNodes spares,
        Connecting connecting,
        MigrationLimits limits,
        Duration rateTime,
        int rankFiles,
        Optional<Fence> fence,
        JobFiles files) {
    /** The usual time over which the least rate of a checkpoint is counted. */
    public static final Duration USUAL_RATE_TIME = Duration.ofSeconds(30);

    /** The settings of the connections to a target, with their keys. */
    public record Connecting(
            @Key(
                    value = "4",
                    doc = "number of data connections; the control connection is separate",
                    example = "8",
                    least = 1,
                    most = 64)
            int connections,

            @Key(value = "5s", doc = "time limit of making a connection, with its handshake", example = "10s")
            Duration connectDeadline) {}
}
