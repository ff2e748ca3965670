package io.ppmr.source.session;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.protocol.data.DataMessage;
import io.ppmr.transport.DirectExporter;
import io.ppmr.transport.RegionExporter;
import io.ppmr.transport.TransportChoice;
import io.ppmr.transport.auth.SessionId;
import io.ppmr.transport.tcp.Connector;
import io.ppmr.transport.tcp.TcpRegionExporter;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.function.Consumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * How the bytes of one session travel, seen from the source: what it offers the target, and the exporter that comes of
 * it. Used by the migration's thread.
 */
public final class SourceTransport {
    private static final Logger LOG = LoggerFactory.getLogger(SourceTransport.class);

    private final TransportChoice choice;
    private final Connector connector;
    private final InetSocketAddress target;
    private final Duration deadline;
    private final String whyNotRdma;

    /** Looks for a route to the target where this node has RDMA; {@code deadline} bounds that and each connection. */
    public SourceTransport(TransportChoice choice, Connector connector, InetSocketAddress target, Duration deadline)
            throws IOException {
        this.choice = choice;
        this.connector = connector;
        this.target = target;
        this.deadline = deadline;
        whyNotRdma = choice.whyNot(target.getAddress(), deadline);
        if (whyNotRdma != null) {
            choice.requireTcpAllowed(whyNotRdma);
        }
    }

    /** Whether the target is to choose; if not, it is TCP, whose connections come before the question. */
    public boolean offersRdma() {
        return whyNotRdma == null;
    }

    /** How the bytes may travel, for the target to choose: {@link TransportChoice#OVER_TCP} and others. */
    public int transports() {
        return (offersRdma() ? TransportChoice.OVER_RDMA : 0)
                | (choice.wish().allowsTcp() ? TransportChoice.OVER_TCP : 0);
    }

    public RegionExporter tcp(BufferPool pool, SessionId session, int connections, Consumer<String> onFailure)
            throws IOException {
        choice.chosen(false, whyNotRdma);
        return new TcpRegionExporter(pool, connector.data(session, connections), onFailure);
    }

    /** What was connected, and what the target is told of it. */
    public record Attachment(RegionExporter exporter, DataMessage.Attached message) {}

    /** Connects as the target offers; by TCP where that does not work and TCP is allowed. */
    public Attachment attach(
            DataMessage.Offer offer, BufferPool pool, SessionId session, int connections, Consumer<String> onFailure)
            throws IOException {
        String reason = offer.reason();
        if (offer.direct()) {
            try {
                InetSocketAddress at = new InetSocketAddress(target.getAddress(), offer.port());
                DirectExporter exporter = choice.direct().connect(pool, at, deadline, onFailure);
                choice.chosen(true, exporter.path());
                return new Attachment(
                        exporter,
                        new DataMessage.Attached(
                                true,
                                exporter.proof().address(),
                                exporter.proof().key(),
                                exporter.proof().digest(),
                                exporter.path()));
            } catch (IOException e) {
                reason = e.getMessage();
                LOG.warn("{}", reason);
            }
        }
        choice.requireTcpAllowed(reason);
        RegionExporter exporter = new TcpRegionExporter(pool, connector.data(session, connections), onFailure);
        choice.chosen(false, reason);
        return new Attachment(exporter, new DataMessage.Attached(false, 0, 0, "", reason));
    }
}
