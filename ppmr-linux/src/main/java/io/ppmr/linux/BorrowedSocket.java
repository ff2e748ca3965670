package io.ppmr.linux;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.Optional;

/**
 * A duplicate, in this process, of a socket descriptor of another process: pidfd_getfd(2). Closed by its owner, for one
 * thread.
 */
public final class BorrowedSocket implements AutoCloseable {
    private static final int BOTH_WAYS = 2;

    /** SOCK_CLOEXEC. */
    private static final int CLOSE_ON_EXEC = 02000000;

    /** AF_INET6. */
    private static final int INTERNET_6 = 10;

    /** A {@code struct sockaddr_in6}: family, port, flow, address, scope. */
    private static final int ADDRESS_BYTES = 128;

    private static final int PORT_OFFSET = 2;
    private static final int IPV4_OFFSET = 4;
    private static final int IPV4_BYTES = 4;
    private static final int IPV6_OFFSET = 8;
    private static final int IPV6_BYTES = 16;

    /** SIOCUNIXFILE. */
    private static final long NAME_FILE = 0x89e0;

    private final BorrowedDescriptor descriptor;

    private BorrowedSocket(BorrowedDescriptor descriptor) {
        this.descriptor = descriptor;
    }

    /**
     * Borrows a socket.
     *
     * @throws IOException if the process or the descriptor no longer exists, the kernel is older than Linux 5.6, or
     *     this process may not trace that one
     */
    public static BorrowedSocket of(int pid, int number) throws IOException {
        return new BorrowedSocket(BorrowedDescriptor.of(pid, number));
    }

    /** Creates a new socket of this process, socket(2), for comparisons. */
    public static BorrowedSocket fresh(int domain, int type, int protocol) throws IOException {
        int descriptor = LibC.CALLS.socket(domain, type | CLOSE_ON_EXEC, protocol);
        if (descriptor < 0) {
            throw new IOException("no socket of domain " + domain + ", type " + type + " and protocol " + protocol
                    + " can be made: " + LibC.describe(LibC.errno()));
        }
        return new BorrowedSocket(BorrowedDescriptor.own(descriptor));
    }

    /**
     * Reads an option into {@code value}, which may contain arguments of the query. Returns false if the kernel
     * refuses.
     */
    public boolean option(int level, int option, byte[] value) {
        return LibC.CALLS.getsockopt(descriptor.number(), level, option, value, new int[] {value.length}) == 0;
    }

    /** Reads an option of up to the given length; empty if the kernel refuses. */
    public Optional<byte[]> value(int level, int option, int mostBytes) {
        byte[] value = new byte[mostBytes];
        int[] length = {mostBytes};
        return LibC.CALLS.getsockopt(descriptor.number(), level, option, value, length) == 0
                ? Optional.of(Arrays.copyOf(value, length[0]))
                : Optional.empty();
    }

    /** Sets an option. Returns the kernel's reason if it refuses, and empty otherwise. */
    public Optional<String> setOption(int level, int option, byte[] value) {
        return LibC.CALLS.setsockopt(descriptor.number(), level, option, value, value.length) == 0
                ? Optional.empty()
                : Optional.of(LibC.describe(LibC.errno()));
    }

    /** Returns the address and port that the socket is bound to; empty if it is not an Internet socket. */
    public Optional<InetSocketAddress> localAddress() throws IOException {
        ByteBuffer address = ByteBuffer.allocate(ADDRESS_BYTES);
        if (LibC.CALLS.getsockname(descriptor.number(), address.array(), new int[] {ADDRESS_BYTES}) != 0) {
            throw new IOException("the address of a socket cannot be read: " + LibC.describe(LibC.errno()));
        }
        int family = address.order(ByteOrder.nativeOrder()).getShort(0);
        int port = address.order(ByteOrder.BIG_ENDIAN).getShort(PORT_OFFSET) & 0xffff;
        byte[] bytes = new byte[family == LibC.INTERNET ? IPV4_BYTES : IPV6_BYTES];
        address.position(family == LibC.INTERNET ? IPV4_OFFSET : IPV6_OFFSET).get(bytes);
        return family == LibC.INTERNET || family == INTERNET_6
                ? Optional.of(new InetSocketAddress(InetAddress.getByAddress(bytes), port))
                : Optional.empty();
    }

    /**
     * Returns the path of the file that a Unix socket is bound to, unix(7), as its mount namespace shows it. The path
     * is absolute and without links, one character for each byte. Empty if there is none, or the kernel does not show
     * it (before Linux 4.20).
     */
    public Optional<String> boundPath() throws IOException {
        int file = LibC.CALLS.ioctl(descriptor.number(), NAME_FILE, 0);
        if (file < 0) {
            return Optional.empty();
        }
        try {
            return ProcFiles.link("/proc/self/fd/" + file);
        } finally {
            LibC.CALLS.close(file);
        }
    }

    /** Shuts down both directions of the connection, for all processes that share the socket; shutdown(2). */
    public void shutDown() throws IOException {
        if (LibC.CALLS.shutdown(descriptor.number(), BOTH_WAYS) != 0) {
            throw new IOException("a socket cannot be shut down: " + LibC.describe(LibC.errno()));
        }
    }

    @Override
    public void close() {
        descriptor.close();
    }
}
