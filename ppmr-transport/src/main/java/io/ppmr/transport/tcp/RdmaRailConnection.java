package io.ppmr.transport.tcp;

import io.ppmr.protocol.data.DataMessage.RailEnded;
import io.ppmr.protocol.data.ProtocolException;
import io.ppmr.transport.MemoryProof;
import io.ppmr.transport.RailSender;
import java.io.IOException;
import java.nio.channels.SocketChannel;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A rail over RDMA at the source, with the TCP connection that negotiated it. The TCP connection represents the rail's
 * generation, and ends with it. Safe for any thread.
 *
 * @param written the RDMA connection, to which all calls are delegated
 * @param negotiation the TCP connection, on which no further message is sent
 */
record RdmaRailConnection(RailSender.RailConnection written, SocketChannel negotiation)
        implements RailSender.RailConnection {
    private static final Logger LOG = LoggerFactory.getLogger(RdmaRailConnection.class);

    @Override
    public void begin(int attempt, Releases releases) {
        written.begin(attempt, releases);
    }

    @Override
    public void send(
            int chunk,
            int offsetInChunk,
            int lengthBytes,
            int file,
            long offset,
            int slot,
            int crc32c,
            boolean releaseSoon)
            throws IOException {
        written.send(chunk, offsetInChunk, lengthBytes, file, offset, slot, crc32c, releaseSoon);
    }

    @Override
    public long movedBytes() {
        return written.movedBytes();
    }

    @Override
    public boolean hasArrived(int chunk, RailEnded report) throws ProtocolException {
        return written.hasArrived(chunk, report);
    }

    @Override
    public long operations() {
        return written.operations();
    }

    @Override
    public MemoryProof proof() {
        return written.proof();
    }

    @Override
    public String path() {
        return written.path() + ", by RDMA Write";
    }

    @Override
    public void close() {
        written.close();
        try {
            negotiation.close();
        } catch (IOException e) {
            LOG.warn("closing the connection of a rail over RDMA: {}", e.toString());
        }
    }
}
