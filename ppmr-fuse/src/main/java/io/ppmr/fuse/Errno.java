package io.ppmr.fuse;

/** Error numbers of Linux that the filesystems return, from errno(3). */
public enum Errno {
    EPERM(1),
    ENOENT(2),
    EINTR(4),
    EIO(5),
    EBADF(9),
    EAGAIN(11),
    ENOMEM(12),
    EACCES(13),
    EBUSY(16),
    EEXIST(17),
    EXDEV(18),
    ENOTDIR(20),
    EISDIR(21),
    EINVAL(22),
    ENFILE(23),
    ENOSPC(28),
    ESPIPE(29),
    EROFS(30),
    ENAMETOOLONG(36),
    ENOSYS(38),
    ENOTEMPTY(39),
    ENOTSUP(95);

    private final int number;

    Errno(int number) {
        this.number = number;
    }

    public int number() {
        return number;
    }

    /** Returns the value by which a hot-path call reports this error. */
    public int negated() {
        return -number;
    }
}
