package io.ppmr.transport.rdma;

import com.ibm.disni.verbs.RdmaCmEvent;
import com.ibm.disni.verbs.RdmaCmEvent.EventType;
import com.ibm.disni.verbs.RdmaCmId;
import com.ibm.disni.verbs.RdmaConnParam;
import io.ppmr.bufferpool.BufferPool;
import io.ppmr.transport.Transport;
import io.ppmr.transport.rdma.RdmaException.Step;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.function.BooleanSupplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Listens for one source on a port of its own. Its event channel becomes the connection's when that is accepted, since
 * DiSNI cannot move an id to another (rdma_migrate_id(3)).
 */
final class RdmaListener implements Transport.Listener {
    private static final Logger LOG = LoggerFactory.getLogger(RdmaListener.class);
    private static final int BACKLOG = 4;

    private final BufferPool pool;
    private final Duration readDeadline;
    private final CmChannel channel;
    private final RdmaCmId listenId;
    private final int port;
    private boolean listening = true;
    private boolean accepted;

    RdmaListener(BufferPool pool, InetAddress address, Duration readDeadline) throws IOException {
        this.pool = pool;
        this.readDeadline = readDeadline;
        channel = new CmChannel();
        RdmaCmId id = null;
        try {
            id = channel.createId();
            id.bindAddr(new InetSocketAddress(address, 0));
            id.listen(BACKLOG);
            listenId = id;
            port = ((InetSocketAddress) id.getSource()).getPort();
        } catch (IOException e) {
            if (id != null) {
                Closing.quietly("a listener", id::destroyId);
            }
            channel.close();
            throw new IOException(
                    "RDMA cannot listen on " + address.getHostAddress() + ": " + e.getMessage()
                            + " (is that the address of a network device with RDMA?)",
                    e);
        }
    }

    @Override
    public int port() {
        return port;
    }

    @Override
    public Transport.Peer accept(InetAddress from, Duration deadline, BooleanSupplier givenUp) throws IOException {
        long deadlineNs = System.nanoTime() + deadline.toNanos();
        while (true) {
            RdmaCmEvent request = channel.await(
                    EventType.RDMA_CM_EVENT_CONNECT_REQUEST, Step.ACCEPT, from.getHostAddress(), deadlineNs, givenUp);
            if (request == null) {
                return null;
            }
            RdmaCmId id = request.getConnIdPriv();
            InetSocketAddress peer = (InetSocketAddress) id.getDestination();
            if (peer == null || !peer.getAddress().equals(from)) {
                LOG.warn("RDMA connection from {} refused: {} is expected", peer, from.getHostAddress());
                Closing.quietly("a stranger's connection", id::destroyId);
            } else {
                return accept(id, peer, deadlineNs, givenUp);
            }
        }
    }

    private Transport.Peer accept(RdmaCmId id, InetSocketAddress from, long deadlineNs, BooleanSupplier givenUp)
            throws IOException {
        Endpoint endpoint;
        try {
            endpoint = Endpoint.open(id, from);
        } catch (IOException e) {
            Closing.quietly("a connection's id", id::destroyId);
            throw e;
        }
        RdmaPeer peer = null;
        try {
            RdmaPeer made = new RdmaPeer(pool, channel, endpoint, readDeadline);
            RdmaConnParam parameters = new RdmaConnParam();
            parameters.setRetry_count((byte) RdmaTransport.RETRIES);
            parameters.setRnr_retry_count((byte) RdmaTransport.RETRIES);
            id.accept(parameters);
            RdmaCmEvent established = channel.await(
                    EventType.RDMA_CM_EVENT_ESTABLISHED, Step.ESTABLISH, endpoint.path(), deadlineNs, givenUp);
            if (established != null) {
                made.established();
                peer = made;
                accepted = true;
            }
            return peer;
        } finally {
            if (peer == null) {
                endpoint.close();
            }
        }
    }

    @Override
    public void close() {
        if (listening) {
            listening = false;
            Closing.quietly("a listener", listenId::destroyId);
            if (!accepted) {
                channel.close();
            }
        }
    }
}
