package io.ppmr.checkpoint;

import jnr.ffi.LibraryLoader;
import jnr.ffi.annotations.In;
import jnr.ffi.annotations.Out;

/**
 * The calls of the C library by which a user's file is opened without following links and without waiting, which the
 * JDK's channels cannot do. Public because jnr-ffi implements it. Each gives -1 with errno in the runtime's last error.
 * open(2), pread(2).
 */
public interface FileCalls {
    /** Loads them. */
    static FileCalls load() {
        return LibraryLoader.create(FileCalls.class).failImmediately().load("c");
    }

    int open(@In byte[] path, int flags);

    long pread(int descriptor, @Out byte[] to, long lengthBytes, long offset);

    int close(int descriptor);
}
