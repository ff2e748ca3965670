package io.ppmr.logging;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import jnr.ffi.LastError;
import jnr.ffi.Runtime;

/** A Unix datagram socket to one address, which never blocks; unix(7). For one thread at a time. */
final class DatagramSocket implements AutoCloseable {
    private static final int AF_UNIX = 1;
    private static final int SOCK_DGRAM_CLOEXEC = 2 | 0x80000;
    private static final int SOL_SOCKET = 1;
    private static final int SO_SNDBUF = 7;
    private static final int SEND_BUFFER_BYTES = 1 << 20;
    private static final int MSG_DONTWAIT_NOSIGNAL = 0x40 | 0x4000;
    private static final int PATH_OFFSET = 2;
    private static final int MAX_PATH_BYTES = 108;
    private static final int EAGAIN = 11;
    private static final int ENOBUFS = 105;
    private static final int EMSGSIZE = 90;

    /** What became of a datagram. */
    enum Sent {
        TAKEN,
        /** The other side has not read for a while, or is not there: try again. */
        LATER,
        /** It will never be taken: too long. */
        NEVER
    }

    private final DatagramCalls calls;
    private final Path path;
    private int descriptor = -1;

    private DatagramSocket(DatagramCalls calls, Path path) {
        this.calls = calls;
        this.path = path;
    }

    /** Connects; whoever listens may go away and come again later. */
    static DatagramSocket to(Path path) throws IOException {
        if (path.toString().getBytes(StandardCharsets.UTF_8).length >= MAX_PATH_BYTES) {
            throw new IOException(path + " is too long for a Unix socket");
        }
        DatagramSocket socket = new DatagramSocket(DatagramCalls.load(), path);
        int errno = socket.connect();
        if (errno != 0) {
            throw new IOException("cannot reach " + path + ": errno " + errno);
        }
        return socket;
    }

    /** Sends without waiting. */
    Sent send(byte[] datagram) {
        int errno = descriptor < 0 ? connect() : 0;
        if (errno == 0) {
            errno = trySend(datagram);
        }
        if (errno != 0 && errno != EAGAIN && errno != ENOBUFS && errno != EMSGSIZE) {
            // The listener's socket was made anew meanwhile.
            close();
            errno = connect();
            if (errno == 0) {
                errno = trySend(datagram);
            }
        }
        if (errno == 0) {
            return Sent.TAKEN;
        }
        return errno == EMSGSIZE ? Sent.NEVER : Sent.LATER;
    }

    private int trySend(byte[] datagram) {
        return calls.send(descriptor, datagram, datagram.length, MSG_DONTWAIT_NOSIGNAL) < 0 ? errno() : 0;
    }

    private int connect() {
        descriptor = calls.socket(AF_UNIX, SOCK_DGRAM_CLOEXEC, 0);
        if (descriptor < 0) {
            return errno();
        }
        // Without a larger buffer a long stack trace would not fit; where it is refused, the usual one remains.
        calls.setsockopt(descriptor, SOL_SOCKET, SO_SNDBUF, new int[] {SEND_BUFFER_BYTES}, Integer.BYTES);
        byte[] name = path.toString().getBytes(StandardCharsets.UTF_8);
        byte[] address = ByteBuffer.allocate(PATH_OFFSET + name.length + 1)
                .order(ByteOrder.nativeOrder())
                .putShort((short) AF_UNIX)
                .put(name)
                .array();
        if (calls.connect(descriptor, address, address.length) < 0) {
            int errno = errno();
            close();
            return errno;
        }
        return 0;
    }

    private static int errno() {
        return LastError.getLastError(Runtime.getSystemRuntime());
    }

    @Override
    public void close() {
        if (descriptor >= 0) {
            calls.close(descriptor);
            descriptor = -1;
        }
    }
}
