package io.ppmr.migration.source;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.bufferpool.FairClaims;
import io.ppmr.checkpoint.ContentDigests;
import io.ppmr.checkpoint.KeptNames;
import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.checkpoint.ProcessTable;
import io.ppmr.migration.RankSurroundings;
import io.ppmr.migration.node.NodeProbe;
import io.ppmr.source.image.OutgoingImageView;
import io.ppmr.transaction.journal.TransactionJournal;
import io.ppmr.transaction.journal.TransactionRecord;
import io.ppmr.transport.TransportChoice;
import io.ppmr.transport.tcp.Connector;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.time.Duration;
import java.util.function.LongSupplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The parts of a source's service that each of its migrations uses. Made once, when the service starts. Immutable; any
 * thread.
 *
 * @param settings the service's settings
 * @param images receives the images from checkpointers
 * @param transports the possible transports
 * @param metrics the metrics
 * @param journal the journal of transactions
 * @param surroundings manages the surroundings of ranks
 * @param digests digests of the jobs' files on this node
 * @param node reads the facts of this node
 * @param clock time since the boot in nanoseconds, for all times that other nodes count, too
 */
record SourceContext(
        SourceSettings settings,
        ImageBuffers images,
        TransportChoice transports,
        SourceMetrics metrics,
        TransactionJournal journal,
        ProcessTable processes,
        NativePrograms programs,
        RankSurroundings surroundings,
        ContentDigests digests,
        NodeProbe node,
        LongSupplier clock) {
    /**
     * The buffers of images, and the mount by which checkpointers fill them.
     *
     * @param pool holds written bytes until a target received them
     * @param claims decides which file gets the next chunk of the pool
     * @param view the files that checkpointers see in the mount
     */
    record ImageBuffers(BufferPool pool, FairClaims claims, OutgoingImageView view) {}

    private static final Logger LOG = LoggerFactory.getLogger(SourceContext.class);

    /** Makes a connector to a target. */
    Connector connector(InetSocketAddress target) {
        return connector(target, settings.connecting().connectDeadline(), null);
    }

    /** @param from as in {@link Connector} */
    Connector connector(InetSocketAddress target, Duration deadline, SocketAddress from) {
        return new Connector(target, settings.authenticator(), deadline, from);
    }

    /** Returns the names that a migration keeps for the sockets of its held ranks. */
    KeptNames names(String migrationId) {
        return new KeptNames(settings.node().workDirectory(), migrationId, programs);
    }

    /** Writes a history record. Migrations do not depend on the history. */
    void note(TransactionRecord record) {
        try {
            journal.append(record);
        } catch (IOException e) {
            LOG.warn("history record could not be written: {}", e.getMessage());
        }
    }
}
