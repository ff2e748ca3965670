package io.ppmr.fuse;

import java.util.List;

/**
 * A filesystem in plain Java, which a FUSE mount serves.
 *
 * <p>Both services implement it: the source's view accepts a checkpointer's writes, the target's view serves a
 * restart's reads. {@link FuseMount} is a thin adapter over it, so one behavioural suite runs against the view alone
 * and then against a real mount.
 *
 * <p>Paths are absolute inside the filesystem ({@code /rank-0/context}). The root is {@code /}. Many threads may call
 * every method at once. A data call may block, but must end with an errno when its migration fails. Infrequent calls
 * report an error by {@link ErrnoException}. {@link #read} and {@link #write} are the hot path and return the negated
 * errno instead. The kernel checks permissions ({@code default_permissions}) from the attributes. A read-only view need
 * not override the methods for changes, and a view without buffered bytes need not override {@link #flush}.
 */
public interface FilesystemView {

    /**
     * The process that makes a call, as the kernel reports it: effective user and group, and the calling thread's id.
     */
    record CallingProcess(int uid, int gid, int pid) {}

    /** The result of {@code statfs(2)}: block size, total blocks, free blocks, files in use. */
    record Capacity(int blockBytes, long blocks, long freeBlocks, long files) {}

    /**
     * Returns the attributes of a name. Throws ENOENT if there is none. Never blocks, because a blocked lookup blocks
     * its whole directory.
     */
    FileAttributes attributes(String path) throws ErrnoException;

    /** Returns the attributes of an open file, which may no longer have a name. */
    FileAttributes attributes(long handle) throws ErrnoException;

    /** Returns the names in a directory, without {@code .} and {@code ..}. */
    List<String> list(String path) throws ErrnoException;

    /** Returns the text of a symbolic link. */
    String readLink(String path) throws ErrnoException;

    /** Opens an existing file; may block until it arrives. Returns its handle, which {@link #release} closes. */
    long open(String path, OpenFlags flags, CallingProcess caller) throws ErrnoException;

    /** Creates and opens a regular file, owned by the caller. */
    default long create(String path, OpenFlags flags, int mode, CallingProcess caller) throws ErrnoException {
        throw readOnly(path);
    }

    /**
     * Copies up to {@code lengthBytes} bytes at {@code offset} to native memory at {@code address}. Returns fewer bytes
     * only at the true end of the file.
     *
     * @return the bytes read, 0 at the end of the file, or a negated errno
     */
    int read(long handle, long address, int lengthBytes, long offset);

    /**
     * Writes all {@code lengthBytes} bytes from native memory at {@code address} to the file's {@code offset}.
     *
     * @return {@code lengthBytes}, or a negated errno
     */
    int write(long handle, long address, int lengthBytes, long offset);

    /** Called for each close of a descriptor of an open file, also by a forked child. */
    default void flush(long handle) throws ErrnoException {}

    /** Blocks until the file's bytes are safe at the receiving side. */
    void fsync(long handle) throws ErrnoException;

    /** Called after the last descriptor of this open was closed. The handle is invalid afterwards. */
    void release(long handle);

    /** Truncates or extends a file by name. */
    default void truncate(String path, long sizeBytes) throws ErrnoException {
        throw readOnly(path);
    }

    /** Truncates or extends an open file. */
    void truncate(long handle, long sizeBytes) throws ErrnoException;

    /** Implements {@code fallocate(2)}, with its {@code mode}. */
    void allocate(long handle, int mode, long offset, long lengthBytes) throws ErrnoException;

    default void makeDirectory(String path, int mode, CallingProcess caller) throws ErrnoException {
        throw readOnly(path);
    }

    default void removeDirectory(String path) throws ErrnoException {
        throw readOnly(path);
    }

    default void symlink(String target, String path, CallingProcess caller) throws ErrnoException {
        throw readOnly(path);
    }

    default void rename(String from, String to) throws ErrnoException {
        throw readOnly(from);
    }

    default void unlink(String path) throws ErrnoException {
        throw readOnly(path);
    }

    default void changeMode(String path, int mode) throws ErrnoException {
        throw readOnly(path);
    }

    /** Changes owner and group; -1 keeps the present one. */
    default void changeOwner(String path, int uid, int gid) throws ErrnoException {
        throw readOnly(path);
    }

    /** Sets the modification time, in nanoseconds since the epoch. */
    default void changeModificationTime(String path, long epochNs) throws ErrnoException {
        throw readOnly(path);
    }

    /** Returns the refusal of a change. */
    private static ErrnoException readOnly(String path) {
        return new ErrnoException(Errno.EROFS, path + ": this filesystem is read-only");
    }

    /** Returns the figures for {@code statfs(2)}. */
    Capacity capacity();

    /**
     * Called once by {@link FuseMount#close}; must not block. Every waiting call must end with EIO at once, and so must
     * every later call that would wait. A view whose calls never wait need not override it.
     */
    default void abort() {}
}
