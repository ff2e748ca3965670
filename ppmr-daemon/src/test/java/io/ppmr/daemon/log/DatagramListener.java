package io.ppmr.daemon.log;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import jnr.ffi.LibraryLoader;
import jnr.ffi.annotations.In;
import jnr.ffi.annotations.Out;

/** A real Unix socket that receives datagrams, as systemd's and the journal's do. */
public final class DatagramListener implements AutoCloseable {
    private static final int AF_UNIX = 1;
    private static final int SOCK_DGRAM = 2;
    private static final int MSG_DONTWAIT = 0x40;
    private static final int MOST_BYTES = 1 << 20;
    private static final long LIMIT_NS = TimeUnit.SECONDS.toNanos(60);

    /** Calls of the C library that only a listener makes. Public because jnr-ffi implements it. */
    public interface Calls {
        int socket(int domain, int type, int protocol);

        int bind(int descriptor, @In byte[] address, int addressBytes);

        long recv(int descriptor, @Out byte[] buffer, long lengthBytes, int flags);

        int close(int descriptor);
    }

    private final Calls calls =
            LibraryLoader.create(Calls.class).failImmediately().load("c");
    private final String address;
    private final int descriptor;

    /** Listens at a path, or at an abstract address after {@code @}. */
    public DatagramListener(String address) throws IOException {
        this.address = address;
        descriptor = calls.socket(AF_UNIX, SOCK_DGRAM, 0);
        byte[] name = address.getBytes(StandardCharsets.UTF_8);
        boolean isAbstract = name[0] == '@';
        if (isAbstract) {
            name[0] = 0;
        }
        byte[] whole = ByteBuffer.allocate(Short.BYTES + name.length + (isAbstract ? 0 : 1))
                .order(ByteOrder.nativeOrder())
                .putShort((short) AF_UNIX)
                .put(name)
                .array();
        if (descriptor < 0 || calls.bind(descriptor, whole, whole.length) < 0) {
            throw new IOException("cannot listen at " + address);
        }
    }

    /** The next datagram, if there is one. */
    public Optional<byte[]> poll() {
        byte[] buffer = new byte[MOST_BYTES];
        long got = calls.recv(descriptor, buffer, buffer.length, MSG_DONTWAIT);
        return got < 0 ? Optional.empty() : Optional.of(Arrays.copyOf(buffer, (int) got));
    }

    /** Returns the next datagram. Throws if none arrives. */
    public byte[] next() throws IOException {
        long deadlineNs = System.nanoTime() + LIMIT_NS;
        while (System.nanoTime() - deadlineNs < 0) {
            Optional<byte[]> datagram = poll();
            if (datagram.isPresent()) {
                return datagram.get();
            }
            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(1));
        }
        throw new IOException("no datagram has come to " + address);
    }

    /** Returns the next datagram as text. Throws if none arrives. */
    public String nextText() throws IOException {
        return new String(next(), StandardCharsets.UTF_8);
    }

    @Override
    public void close() throws IOException {
        calls.close(descriptor);
        if (!address.startsWith("@")) {
            Files.deleteIfExists(Path.of(address));
        }
    }
}
