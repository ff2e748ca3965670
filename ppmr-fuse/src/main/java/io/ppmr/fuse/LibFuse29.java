package io.ppmr.fuse;

import jnr.ffi.LibraryLoader;
import jnr.ffi.Pointer;
import jnr.ffi.annotations.In;

/**
 * The part of libfuse 2.9's interface (fuse.h, fuse_lowlevel.h) that jnr-fuse does not bind: mounting and the request
 * loop, in separate steps. Public because jnr-ffi implements it.
 */
public interface LibFuse29 {
    /** Size of {@code struct fuse_buf}: size, flags, memory, descriptor, position. */
    int FUSE_BUF_BYTES = 40;
    /** The offset of that structure's size. */
    int FUSE_BUF_SIZE_OFFSET = 0;
    /** The offset of that structure's flags. */
    int FUSE_BUF_FLAGS_OFFSET = 8;
    /** The offset of the address of that structure's memory. */
    int FUSE_BUF_MEMORY_OFFSET = 16;

    static LibFuse29 load() {
        return LibraryLoader.create(LibFuse29.class).failImmediately().load("libfuse.so.2");
    }

    /** Mounts; returns the {@code struct fuse}, or null after a message on standard error. */
    Pointer fuse_setup(
            int count,
            @In String[] arguments,
            Pointer operations,
            long operationsBytes,
            Pointer mountPointOut,
            Pointer multithreadedOut,
            Pointer userData);

    /** Notes the session whose signal handlers {@link #fuse_teardown} removes. The JVM's own handlers stay. */
    int fuse_set_signal_handlers(Pointer session);

    /** Unmounts if still mounted, and frees the memory of the setup, which must no longer be used. */
    void fuse_teardown(Pointer fuse, Pointer mountPoint);

    Pointer fuse_get_session(Pointer fuse);

    Pointer fuse_session_next_chan(Pointer session, Pointer previous);

    long fuse_chan_bufsize(Pointer channel);

    /** Returns the descriptor of {@code /dev/fuse}, which the teardown closes. */
    int fuse_chan_fd(Pointer channel);

    /** Waits for a request; returns its bytes, 0 after the mount was removed, or a negated errno. */
    int fuse_session_receive_buf(long session, long buffer, long channelInOut);

    /** Serves a request and sends its answer to the kernel. */
    void fuse_session_process_buf(long session, long buffer, long channel);

    int fuse_session_exited(long session);

    void fuse_session_exit(long session);
}
