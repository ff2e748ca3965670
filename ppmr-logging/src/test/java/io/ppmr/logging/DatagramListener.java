package io.ppmr.logging;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import jnr.ffi.LibraryLoader;
import jnr.ffi.annotations.In;
import jnr.ffi.annotations.Out;

/** A real Unix socket that takes datagrams, as the journal's does, and reads what is in them. */
final class DatagramListener implements AutoCloseable {
    private static final int AF_UNIX = 1;
    private static final int SOCK_DGRAM = 2;
    private static final int MSG_DONTWAIT = 0x40;
    private static final int MOST_BYTES = 1 << 20;
    private static final long LIMIT_NS = TimeUnit.SECONDS.toNanos(20);

    /** What only a listener calls. Public because jnr-ffi implements it. */
    public interface Calls {
        int socket(int domain, int type, int protocol);

        int bind(int descriptor, @In byte[] address, int addressBytes);

        long recv(int descriptor, @Out byte[] buffer, long lengthBytes, int flags);

        int close(int descriptor);
    }

    private final Calls calls =
            LibraryLoader.create(Calls.class).failImmediately().load("c");
    private final Path path;
    private final int descriptor;

    DatagramListener(Path path) throws IOException {
        this.path = path;
        descriptor = calls.socket(AF_UNIX, SOCK_DGRAM, 0);
        byte[] name = path.toString().getBytes(StandardCharsets.UTF_8);
        byte[] address = ByteBuffer.allocate(Short.BYTES + name.length + 1)
                .order(ByteOrder.nativeOrder())
                .putShort((short) AF_UNIX)
                .put(name)
                .array();
        if (descriptor < 0 || calls.bind(descriptor, address, address.length) < 0) {
            throw new IOException("cannot listen at " + path);
        }
    }

    /** The fields of the next entry; throws if none comes. */
    Map<String, String> next() throws IOException {
        byte[] buffer = new byte[MOST_BYTES];
        long deadlineNs = System.nanoTime() + LIMIT_NS;
        while (System.nanoTime() - deadlineNs < 0) {
            long got = calls.recv(descriptor, buffer, buffer.length, MSG_DONTWAIT);
            if (got >= 0) {
                return fields(buffer, ByteBuffer.wrap(buffer, 0, (int) got).order(ByteOrder.LITTLE_ENDIAN));
            }
            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(1));
        }
        throw new IOException("no entry has come to " + path);
    }

    /** As journald reads it. */
    private static Map<String, String> fields(byte[] bytes, ByteBuffer datagram) {
        Map<String, String> fields = new HashMap<>();
        while (datagram.hasRemaining()) {
            String line = until(bytes, datagram);
            int equals = line.indexOf('=');
            if (equals >= 0) {
                fields.put(line.substring(0, equals), line.substring(equals + 1));
            } else {
                byte[] value = new byte[(int) datagram.getLong()];
                datagram.get(value);
                fields.put(line, new String(value, StandardCharsets.UTF_8));
                if (datagram.get() != '\n') {
                    throw new IllegalStateException("no line end after the value of " + line);
                }
            }
        }
        return fields;
    }

    private static String until(byte[] bytes, ByteBuffer datagram) {
        int start = datagram.position();
        while (datagram.get() != '\n') {
            if (!datagram.hasRemaining()) {
                throw new IllegalStateException("a field without an end");
            }
        }
        return new String(bytes, start, datagram.position() - 1 - start, StandardCharsets.UTF_8);
    }

    @Override
    public void close() throws IOException {
        calls.close(descriptor);
        Files.deleteIfExists(path);
    }
}
