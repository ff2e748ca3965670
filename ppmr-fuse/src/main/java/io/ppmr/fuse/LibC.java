package io.ppmr.fuse;

import jnr.ffi.LibraryLoader;

/** The one call of the C library that the data path needs. Public because jnr-ffi implements it. */
public interface LibC {

    static LibC load() {
        return LibraryLoader.create(LibC.class).failImmediately().load("c");
    }

    /** write(2); -1 with errno in the runtime's last error. */
    long write(int descriptor, long address, long lengthBytes);
}
