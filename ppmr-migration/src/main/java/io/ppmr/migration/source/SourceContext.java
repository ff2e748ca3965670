package io.ppmr.migration.source;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.bufferpool.FairClaims;
import io.ppmr.checkpoint.ContentDigests;
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
 * @param settings what the service is told
 * @param pool where written bytes wait until a target has pulled them
 * @param claims who gets a chunk of it next
 * @param view what checkpointers see in the mount
 * @param transports how the bytes may travel
 * @param metrics what is counted
 * @param journal the transactions'
 * @param surroundings keeps what lies around ranks
 * @param digests of the jobs' files on this node
 * @param node says what this node is
 * @param clock the time since the boot, by which everything is counted that other nodes count, too, in nanoseconds
 */
record SourceContext(
        SourceSettings settings,
        BufferPool pool,
        FairClaims claims,
        OutgoingImageView view,
        TransportChoice transports,
        SourceMetrics metrics,
        TransactionJournal journal,
        ProcessTable processes,
        NativePrograms programs,
        RankSurroundings surroundings,
        ContentDigests digests,
        NodeProbe node,
        LongSupplier clock) {
    private static final Logger LOG = LoggerFactory.getLogger(SourceContext.class);

    /** Makes connections to a target. */
    Connector connector(InetSocketAddress target) {
        return connector(target, settings.connecting().connectDeadline(), null);
    }

    /** @param from as in {@link Connector} */
    Connector connector(InetSocketAddress target, Duration deadline, SocketAddress from) {
        return new Connector(target, settings.authenticator(), deadline, from);
    }

    /** Writes into the history, which a migration does not depend on. */
    void note(TransactionRecord record) {
        try {
            journal.append(record);
        } catch (IOException e) {
            LOG.warn("the history will not have it: {}", e.getMessage());
        }
    }
}
