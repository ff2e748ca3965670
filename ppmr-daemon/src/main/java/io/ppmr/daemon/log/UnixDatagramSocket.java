package io.ppmr.daemon.log;

import io.ppmr.linux.LibC;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.time.Duration;

/**
 * A Unix datagram socket to one address, unix(7), which the JDK's channels do not support. The kernel shows the
 * receiver that this process sent the messages. It is for one thread at a time. Its owner closes it.
 */
public final class UnixDatagramSocket implements AutoCloseable {
    private static final int AF_UNIX = 1;
    private static final int SOCK_DGRAM_CLOEXEC = 2 | 0x80000;
    private static final int SOL_SOCKET = 1;
    private static final int SO_SNDBUF = 7;
    private static final int SO_SNDTIMEO = 21;
    private static final int SEND_BUFFER_BYTES = 1 << 20;
    private static final int MSG_DONTWAIT = 0x40;
    private static final int MSG_NOSIGNAL = 0x4000;
    private static final int MAX_ADDRESS_BYTES = 108;
    private static final int NS_PER_US = 1000;
    private static final int EAGAIN = 11;
    private static final int EMSGSIZE = 90;
    private static final int ENOBUFS = 105;

    /** The result of sending a datagram. */
    public enum Sent {
        TAKEN,
        /** The receiver did not read in time, or is gone. The caller can retry. */
        LATER,
        /** The datagram is too long. */
        NEVER
    }

    private final String address;
    private final Duration patience;
    private int descriptor = -1;

    private UnixDatagramSocket(String address, Duration patience) {
        this.address = address;
        this.patience = patience;
    }

    /**
     * Connects. The receiver may disappear and return later.
     *
     * @param address a path, or an abstract address after {@code @}
     * @param patience the time for which a message waits for the receiver; zero for none
     * @throws IOException if no receiver listens there
     */
    public static UnixDatagramSocket to(String address, Duration patience) throws IOException {
        if (address.getBytes(StandardCharsets.UTF_8).length >= MAX_ADDRESS_BYTES) {
            throw new IOException(address + " is too long for a Unix socket");
        }
        UnixDatagramSocket socket = new UnixDatagramSocket(address, patience);
        int errno = socket.connect();
        if (errno != 0) {
            throw new IOException("cannot reach " + address + ": " + LibC.describe(errno));
        }
        return socket;
    }

    /** Sends a message. Reconnects if the receiver made its socket again. */
    public Sent send(byte[] datagram) {
        int errno = descriptor < 0 ? connect() : 0;
        if (errno == 0) {
            errno = trySend(datagram);
        }
        if (errno != 0 && errno != EAGAIN && errno != ENOBUFS && errno != EMSGSIZE) {
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
        int flags = patience.isZero() ? MSG_NOSIGNAL | MSG_DONTWAIT : MSG_NOSIGNAL;
        return LibC.CALLS.send(descriptor, datagram, datagram.length, flags) < 0 ? LibC.errno() : 0;
    }

    private int connect() {
        descriptor = LibC.CALLS.socket(AF_UNIX, SOCK_DGRAM_CLOEXEC, 0);
        if (descriptor < 0) {
            return LibC.errno();
        }
        // A long stack trace needs a larger buffer. If the kernel refuses it, the default remains.
        set(SO_SNDBUF, buffer(Integer.BYTES).putInt(SEND_BUFFER_BYTES).array());
        set(
                SO_SNDTIMEO,
                buffer(2 * Long.BYTES)
                        .putLong(patience.toSeconds())
                        .putLong(patience.toNanosPart() / NS_PER_US)
                        .array());
        byte[] name = address.getBytes(StandardCharsets.UTF_8);
        boolean named = name[0] != '@';
        if (!named) {
            name[0] = 0;
        }
        // A path ends with a zero byte. An abstract address begins with one, and its length ends it.
        byte[] whole = buffer(Short.BYTES + name.length + (named ? 1 : 0))
                .putShort((short) AF_UNIX)
                .put(name)
                .array();
        if (LibC.CALLS.connect(descriptor, whole, whole.length) < 0) {
            int errno = LibC.errno();
            close();
            return errno;
        }
        return 0;
    }

    private void set(int option, byte[] value) {
        LibC.CALLS.setsockopt(descriptor, SOL_SOCKET, option, value, value.length);
    }

    private static ByteBuffer buffer(int lengthBytes) {
        return ByteBuffer.allocate(lengthBytes).order(ByteOrder.nativeOrder());
    }

    @Override
    public void close() {
        if (descriptor >= 0) {
            LibC.CALLS.close(descriptor);
            descriptor = -1;
        }
    }
}
