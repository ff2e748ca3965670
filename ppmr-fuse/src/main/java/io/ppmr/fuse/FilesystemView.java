package io.ppmr.fuse;

import java.util.List;

/**
 * A filesystem as plain Java sees it: what a FUSE mount serves, without FUSE.
 *
 * <p>Both services implement it: the source's view takes what a checkpointer writes, the target's view gives what a
 * restart reads. {@link FuseMount} is a thin adapter over it, so one behavioural suite runs against the view alone and
 * then against a real mount.
 *
 * <p>Paths are absolute inside the filesystem ({@code /rank-0/context}); the root is {@code /}. Every method may be
 * called by many threads at once, and a data call may block: it must end with an errno when its migration fails. Cold
 * calls report an error by {@link ErrnoException}; {@link #read} and {@link #write} are the hot path and return the
 * negated errno instead. Permissions are checked by the kernel ({@code default_permissions}) from the attributes. A
 * view in which nothing can be changed need not override what changes something, and one that keeps nothing back need
 * not override {@link #flush}.
 */
public interface FilesystemView {

    /**
     * The process that makes a call, as the kernel reports it: effective user and group, and the calling thread's id.
     */
    record CallingProcess(int uid, int gid, int pid) {}

    /** The answer of {@code statfs(2)}: block size, blocks in all, blocks free, files in use. */
    record Capacity(int blockBytes, long blocks, long freeBlocks, long files) {}

    /** Attributes of a name; ENOENT where there is none. Never blocks: a blocked lookup stops its whole directory. */
    FileAttributes attributes(String path) throws ErrnoException;

    /** Attributes of an open file, which may no longer have a name. */
    FileAttributes attributes(long handle) throws ErrnoException;

    /** The names in a directory, without {@code .} and {@code ..}. */
    List<String> list(String path) throws ErrnoException;

    /** The text of a symbolic link. */
    String readLink(String path) throws ErrnoException;

    /** Opens an existing file; may block until it has come. Returns its handle, which {@link #release} ends. */
    long open(String path, OpenFlags flags, CallingProcess caller) throws ErrnoException;

    /** Creates and opens a regular file, owned by the caller. */
    default long create(String path, OpenFlags flags, int mode, CallingProcess caller) throws ErrnoException {
        throw readOnly(path);
    }

    /**
     * Copies up to {@code lengthBytes} bytes at {@code offset} to native memory at {@code address}. Answers short only
     * at the true end of the file.
     *
     * @return the bytes read, 0 at the end of the file, or a negated errno
     */
    int read(long handle, long address, int lengthBytes, long offset);

    /**
     * Takes all {@code lengthBytes} bytes at native memory {@code address} for the file's {@code offset}.
     *
     * @return {@code lengthBytes}, or a negated errno
     */
    int write(long handle, long address, int lengthBytes, long offset);

    /** One descriptor of an open file was closed: once for each close, also of a forked child's. */
    default void flush(long handle) throws ErrnoException {}

    /** Returns when the file's bytes are safe on the far side. */
    void fsync(long handle) throws ErrnoException;

    /** The last descriptor of this open is gone: the handle is dead after the call. */
    void release(long handle);

    /** Cuts or extends a file by name. */
    default void truncate(String path, long sizeBytes) throws ErrnoException {
        throw readOnly(path);
    }

    /** Cuts or extends an open file. */
    void truncate(long handle, long sizeBytes) throws ErrnoException;

    /** {@code fallocate(2)}; {@code mode} as there. */
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

    /** {@code uid} or {@code gid} of -1 leaves that one as it is. */
    default void changeOwner(String path, int uid, int gid) throws ErrnoException {
        throw readOnly(path);
    }

    /** Sets the modification time, in nanoseconds since the epoch. */
    default void changeModificationTime(String path, long epochNs) throws ErrnoException {
        throw readOnly(path);
    }

    /** Returns the refusal of a change. */
    private static ErrnoException readOnly(String path) {
        return new ErrnoException(Errno.EROFS, path + ": files here can only be read");
    }

    /** Figures for {@code statfs(2)}. */
    Capacity capacity();

    /**
     * The mount is closing: every call that waits ends with EIO at once, and a later call that would wait ends so
     * too. Called once by {@link FuseMount#close}; must not block. A view whose calls never wait need not override it.
     */
    default void abort() {}
}
