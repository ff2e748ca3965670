package io.ppmr.system;

import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * An attacker between a source and a target, without the key. It sees all bytes, and tampers once with one encrypted
 * record of a control connection. It is safe for any thread, and its owner closes it.
 */
final class TamperingRelay implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(TamperingRelay.class);
    private static final int HEADER_BYTES = 5;
    private static final int HANDSHAKE = 0x16;
    private static final int APPLICATION_DATA = 0x17;

    /** A change of a record. */
    enum Tampering {
        NOTHING,
        CHANGE_HEADER,
        CHANGE_BODY,
        CHANGE_TAG,
        DROP,
        REPEAT,
        SWAP,
        CUT
    }

    private final ServerSocket server;
    private final AtomicReference<InetSocketAddress> target = new AtomicReference<>();
    private final Tampering tampering;
    private final boolean ofTarget;
    /** The number of records of the direction before the one that is tampered with, over all connections. */
    private final AtomicInteger remaining;

    private final List<Socket> sockets = new CopyOnWriteArrayList<>();
    private final ByteArrayOutputStream seen = new ByteArrayOutputStream();

    /**
     * Begins to listen.
     *
     * @param ofTarget whether a record of the target is tampered with, otherwise one of the source
     * @param record the number of the record, from 0
     */
    TamperingRelay(Tampering tampering, boolean ofTarget, int record) throws IOException {
        this.tampering = tampering;
        this.ofTarget = ofTarget;
        remaining = new AtomicInteger(tampering == Tampering.NOTHING ? Integer.MAX_VALUE : record);
        server = new ServerSocket(0, 64, InetAddress.getLoopbackAddress());
        daemon(this::accept);
    }

    InetSocketAddress address() {
        return (InetSocketAddress) server.getLocalSocketAddress();
    }

    void target(InetSocketAddress address) {
        target.set(address);
    }

    boolean hasTampered() {
        return remaining.get() < 0;
    }

    /** Returns all bytes of all connections so far, each byte as a character. */
    String seen() {
        synchronized (seen) {
            return seen.toString(java.nio.charset.StandardCharsets.ISO_8859_1);
        }
    }

    private static void daemon(Runnable task) {
        Thread thread = new Thread(task, "tampering-relay");
        thread.setDaemon(true);
        thread.start();
    }

    private void accept() {
        try {
            while (true) {
                Socket source = server.accept();
                sockets.add(source);
                Socket to = new Socket(target.get().getAddress(), target.get().getPort());
                sockets.add(to);
                source.setTcpNoDelay(true);
                to.setTcpNoDelay(true);
                daemon(() -> pass(source, to, false));
                daemon(() -> pass(to, source, true));
            }
        } catch (IOException e) {
            LOG.debug("the relay ended: {}", e.toString());
        }
    }

    private void pass(Socket from, Socket to, boolean fromTarget) {
        try {
            DataInputStream in = new DataInputStream(from.getInputStream());
            OutputStream out = to.getOutputStream();
            int first = in.read();
            if (first < 0) {
                throw new EOFException("no byte");
            }
            if (first == HANDSHAKE) {
                records(in, out, fromTarget);
            } else {
                see(new byte[] {(byte) first}, 1);
                out.write(first);
                byte[] buffer = new byte[1 << 16];
                for (int n = in.read(buffer); n >= 0; n = in.read(buffer)) {
                    see(buffer, n);
                    out.write(buffer, 0, n);
                }
            }
            to.shutdownOutput();
        } catch (IOException e) {
            LOG.debug("a connection ended: {}", e.toString());
            closeQuietly(to);
            closeQuietly(from);
        }
    }

    private void records(DataInputStream in, OutputStream out, boolean fromTarget) throws IOException {
        byte[] swapped = null;
        int type = HANDSHAKE;
        while (type >= 0) {
            byte[] record = record(in, type);
            see(record, record.length);
            boolean isDue = type == APPLICATION_DATA && fromTarget == ofTarget && remaining.getAndDecrement() == 0;
            if (isDue && tampering == Tampering.SWAP) {
                swapped = record;
            } else if (isDue) {
                tamper(record, out);
            } else {
                out.write(record);
                if (swapped != null) {
                    out.write(swapped);
                    swapped = null;
                }
            }
            type = in.read();
        }
    }

    private static byte[] record(DataInputStream in, int type) throws IOException {
        byte[] header = new byte[HEADER_BYTES];
        header[0] = (byte) type;
        in.readFully(header, 1, HEADER_BYTES - 1);
        int length = ByteBuffer.wrap(header).getShort(HEADER_BYTES - 2) & 0xFFFF;
        byte[] record = java.util.Arrays.copyOf(header, HEADER_BYTES + length);
        in.readFully(record, HEADER_BYTES, length);
        return record;
    }

    private void tamper(byte[] record, OutputStream out) throws IOException {
        switch (tampering) {
            case CHANGE_HEADER -> record[0] ^= 1;
            case CHANGE_BODY -> record[HEADER_BYTES] ^= 1;
            case CHANGE_TAG -> record[record.length - 1] ^= 1;
            case REPEAT -> out.write(record);
            case CUT -> throw new EOFException("cut by the test");
            default -> LOG.debug("{} of a record of {} bytes", tampering, record.length);
        }
        if (tampering != Tampering.DROP) {
            out.write(record);
        }
    }

    private void see(byte[] bytes, int length) {
        synchronized (seen) {
            seen.write(bytes, 0, length);
        }
    }

    private static void closeQuietly(Socket socket) {
        try {
            socket.close();
        } catch (IOException e) {
            LOG.debug("closing a connection: {}", e.toString());
        }
    }

    @Override
    public void close() throws IOException {
        server.close();
        sockets.forEach(TamperingRelay::closeQuietly);
    }
}
