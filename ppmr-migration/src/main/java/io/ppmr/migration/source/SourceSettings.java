package io.ppmr.migration.source;

import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.checkpoint.Fence;
import io.ppmr.migration.node.JobFiles;
import io.ppmr.transport.auth.PeerAuthenticator;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Optional;

/**
 * Everything that a source's service is told, resolved once.
 *
 * @param mountPoint where checkpointers write
 * @param workDirectory for the checkpoint commands' own files, outside the mount
 * @param pool size of the pool and its chunks
 * @param authenticator how peers prove themselves
 * @param spares where the spare nodes' services listen, in the order in which they are asked
 * @param dataConnections how many connections carry bytes
 * @param connectDeadline for each connection and its handshake
 * @param checkpointDeadline how long a checkpoint may take in all
 * @param discardDeadline how long after a failure a checkpointer that writes from within its process may go on, while
 *     what it writes is thrown away
 * @param decisionDeadline how long a lost target is sought after all were prepared
 * @param silenceLimit how long the connected target may say nothing
 * @param transaction what bounds migrations as transactions
 * @param bounds of what a job's user decides
 * @param files what is expected of files that each node has for itself
 */
public record SourceSettings(
        Path mountPoint,
        Path workDirectory,
        PoolGeometry pool,
        PeerAuthenticator authenticator,
        SpareNodes spares,
        int dataConnections,
        Duration connectDeadline,
        Duration checkpointDeadline,
        Duration discardDeadline,
        Duration decisionDeadline,
        Duration silenceLimit,
        TransactionSettings transaction,
        JobBounds bounds,
        JobFiles files) {
    /**
     * The settings of a source's migrations as transactions.
     *
     * @param journal the directory of the journal
     * @param pauseBudget how long the originals may be held before a migration is rolled back
     * @param attempts how many targets are tried in all for the same ranks
     * @param fence how a lost target is proved off; without it its voters are waited for
     */
    public record TransactionSettings(Path journal, Duration pauseBudget, int attempts, Optional<Fence> fence) {}
}
