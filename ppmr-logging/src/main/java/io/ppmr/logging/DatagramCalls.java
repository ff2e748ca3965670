package io.ppmr.logging;

import jnr.ffi.LibraryLoader;
import jnr.ffi.annotations.In;

/**
 * The calls of the C library by which a datagram gets to a Unix socket, which the JDK's channels cannot do. Public
 * because jnr-ffi implements it. Each gives -1 with errno in the runtime's last error. socket(2), connect(2), send(2).
 */
public interface DatagramCalls {
    /** Loads them. */
    static DatagramCalls load() {
        return LibraryLoader.create(DatagramCalls.class).failImmediately().load("c");
    }

    int socket(int domain, int type, int protocol);

    int connect(int descriptor, @In byte[] address, int addressBytes);

    long send(int descriptor, @In byte[] datagram, long lengthBytes, int flags);

    int setsockopt(int descriptor, int level, int option, @In int[] value, int valueBytes);

    int close(int descriptor);
}
