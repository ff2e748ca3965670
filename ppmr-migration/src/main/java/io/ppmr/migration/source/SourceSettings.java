package io.ppmr.migration.source;

import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.checkpoint.Fence;
import io.ppmr.linux.config.Key;
import io.ppmr.migration.node.JobFiles;
import io.ppmr.migration.node.NodeSettings;
import io.ppmr.transport.auth.PeerAuthenticator;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Optional;

/**
 * The settings of a source's service, resolved once. Immutable.
 *
 * @param node settings that a target has, too
 * @param journal directory of the journal
 * @param pool size of the pool and its chunks
 * @param authenticator authenticates peers
 * @param spares addresses of the spare nodes' services, in their order
 * @param connecting settings of the connections to a target
 * @param limits limits of each migration
 * @param rateTime time over which a checkpoint's least rate is measured
 * @param rankFiles maximum number of open or mapped files of a rank's processes, and of threads
 * @param fence proves a lost target off; without it the source waits for its voters
 * @param files expectations about files of which each node has its own
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
    /** The production time over which the least rate of a checkpoint is measured. */
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

            @Key(value = "5s", doc = "time limit for a connection and its handshake", example = "10s")
            Duration connectDeadline) {}
}
