package io.ppmr.transport.auth;

import java.io.IOException;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;

/** The source's socket during a handshake: in blocking mode, until a deadline. */
final class HandshakeSocket {
    private final SocketChannel channel;
    private final long deadlineNs;

    HandshakeSocket(SocketChannel channel, long deadlineNs) {
        this.channel = channel;
        this.deadlineNs = deadlineNs;
    }

    SocketChannel channel() {
        return channel;
    }

    void write(ByteBuffer bytes) throws IOException {
        while (bytes.hasRemaining()) {
            channel.write(bytes);
        }
    }

    /** Reads at least one byte. */
    int read(byte[] bytes, int offset) throws IOException {
        Socket socket = channel.socket();
        long remainingMs = (deadlineNs - System.nanoTime()) / 1_000_000;
        if (remainingMs <= 0) {
            throw tooSlow();
        }
        socket.setSoTimeout((int) Math.min(remainingMs, Integer.MAX_VALUE));
        int read;
        try {
            read = socket.getInputStream().read(bytes, offset, bytes.length - offset);
        } catch (SocketTimeoutException e) {
            throw (IOException) tooSlow().initCause(e);
        }
        if (read < 0) {
            throw new IOException("peer " + channel.getRemoteAddress()
                    + " ended the handshake early: its log has the reason. It may be too slow, have another key or"
                    + " another encryption, or not be a ppmr service of this release");
        }
        return read;
    }

    private SocketTimeoutException tooSlow() throws IOException {
        return new SocketTimeoutException("peer " + channel.getRemoteAddress()
                + " did not finish the handshake in time: it hangs, or is not a ppmr service");
    }
}
