package io.ppmr.linux;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.AccessDeniedException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import jnr.ffi.Memory;
import jnr.ffi.Pointer;
import jnr.ffi.Runtime;

/**
 * Reads links and small files of proc(5) by calls of the C library. Names there are bytes: each becomes one character,
 * independent of the locale. If a process or a descriptor no longer exists, the result is empty. If this service may
 * not read it, an {@link AccessDeniedException} is thrown. Any thread.
 */
public final class ProcFiles {
    private static final int LONGEST_LINK_BYTES = 8192;
    private static final int PIECE_BYTES = 4096;
    private static final int EPERM = 1;
    private static final int ENOENT = 2;
    private static final int ESRCH = 3;
    private static final int EACCES = 13;
    private static final int ENOTDIR = 20;
    private static final int ENAMETOOLONG = 36;
    private static final int ENOSYS = 38;

    /** The text of a link to a file whose path is too long for the kernel to show. Any user can open such a file. */
    public static final String UNSHOWN_PATH = "/(a path that is too long to be shown)";

    /** The number of statx(2), which differs between x86-64 and AArch64. */
    private static final long STATX = System.getProperty("os.arch").equals("aarch64") ? 291 : 332;

    /** AT_FDCWD. */
    static final int CURRENT_DIRECTORY = -100;

    /** AT_SYMLINK_NOFOLLOW. */
    private static final int LINK_ITSELF = 0x100;

    /** AT_STATX_DONT_SYNC: the kernel does not call the server of a filesystem, which could hang. */
    private static final int FROM_CACHE = 0x4000;
    /** STATX_BASIC_STATS. */
    private static final int BASIC = 0x7ff;

    private static final int STATX_BYTES = 256;
    private static final int LINKS_OFFSET = 16;
    private static final int MODE_OFFSET = 28;
    private static final int INODE_OFFSET = 32;
    private static final int UID_OFFSET = 20;
    private static final int GID_OFFSET = 24;
    private static final int BLOCKS_OFFSET = 48;
    private static final int RDEV_MAJOR_OFFSET = 128;
    private static final int DEV_MAJOR_OFFSET = 136;

    /** The unit of blocks in stat(2), independent of the filesystem's block size. */
    private static final int BLOCK_BYTES = 512;

    private static final int STATFS_BYTES = 256;
    private static final int LONGEST_PROTOCOL_BYTES = 64;
    private static final int LONGEST_PATH_BYTES = 4096;
    private static final int ANSWER_OFFSET = STATX_BYTES + LONGEST_PATH_BYTES;
    /** Three areas: the result of statx(2), the path, and the bytes that are read. */
    private static final ThreadLocal<Pointer> MEMORY = ThreadLocal.withInitial(
            () -> Memory.allocateDirect(Runtime.getSystemRuntime(), ANSWER_OFFSET + LONGEST_LINK_BYTES));

    private ProcFiles() {}

    /**
     * The type and the attributes of a file.
     *
     * @param mode its type and permissions, inode(7)
     * @param links the number of its names
     * @param inode its number in its filesystem
     * @param device its filesystem, as MAJOR:MINOR in decimal
     * @param major the number of its driver if it is a device file
     * @param minor the number of its device if it is a device file
     * @param allocatedBytes its space on disk or in memory; its length on kernels before Linux 4.11
     * @param uid its owner
     * @param gid its group
     */
    public record FileStatus(
            int mode,
            int links,
            long inode,
            String device,
            int major,
            int minor,
            long allocatedBytes,
            int uid,
            int gid) {
        private static final int TYPE = 0170000;
        private static final int FIFO = 0010000;
        private static final int CHARACTER_DEVICE = 0020000;
        private static final int DIRECTORY = 0040000;
        private static final int BLOCK_DEVICE = 0060000;
        private static final int REGULAR = 0100000;

        public boolean isFifo() {
            return (mode & TYPE) == FIFO;
        }

        public boolean isCharacterDevice() {
            return (mode & TYPE) == CHARACTER_DEVICE;
        }

        public boolean isBlockDevice() {
            return (mode & TYPE) == BLOCK_DEVICE;
        }

        public boolean isDirectory() {
            return (mode & TYPE) == DIRECTORY;
        }

        public boolean isRegular() {
            return (mode & TYPE) == REGULAR;
        }
    }

    /** Returns the text of a symbolic link; {@link #UNSHOWN_PATH} if the kernel cannot show it. */
    public static Optional<String> link(String path) throws IOException {
        return link(CURRENT_DIRECTORY, path);
    }

    static Optional<String> link(int folder, String path) throws IOException {
        Pointer memory = MEMORY.get();
        long answer = memory.address() + ANSWER_OFFSET;
        long length = LibC.CALLS.readlinkat(folder, named(path, memory), answer, LONGEST_LINK_BYTES);
        if (length < 0) {
            int errno = LibC.errno();
            return errno == ENAMETOOLONG ? Optional.of(UNSHOWN_PATH) : goneOrThrow(path, errno);
        }
        return Optional.of(answer(memory, (int) length));
    }

    /** Copies a path into the memory, and returns its address. */
    private static long named(String path, Pointer memory) throws IOException {
        byte[] name = terminated(path);
        if (name.length > LONGEST_PATH_BYTES) {
            throw new IOException(path + " is longer than a path can be");
        }
        memory.put(STATX_BYTES, name, 0, name.length);
        return memory.address() + STATX_BYTES;
    }

    private static String answer(Pointer memory, int length) {
        byte[] bytes = new byte[length];
        memory.get(ANSWER_OFFSET, bytes, 0, length);
        return new String(bytes, StandardCharsets.ISO_8859_1);
    }

    static int open(int folder, String path, int flags) throws IOException {
        return LibC.CALLS.openat(folder, named(path, MEMORY.get()), flags);
    }

    /** Returns the beginning of a file: at most {@value #PIECE_BYTES} bytes. */
    public static Optional<String> beginning(String path) throws IOException {
        return beginning(CURRENT_DIRECTORY, path);
    }

    static Optional<String> beginning(int folder, String path) throws IOException {
        Pointer memory = MEMORY.get();
        int descriptor = open(folder, path, LibC.OPEN_CLOSE_ON_EXEC);
        if (descriptor < 0) {
            return goneOrThrow(path, LibC.errno());
        }
        try {
            long length = LibC.CALLS.pread(descriptor, memory.address() + ANSWER_OFFSET, PIECE_BYTES, 0);
            return length < 0 ? goneOrThrow(path, LibC.errno()) : Optional.of(answer(memory, (int) length));
        } finally {
            LibC.CALLS.close(descriptor);
        }
    }

    /**
     * Returns a whole file.
     *
     * @throws IOException if the file has more than {@code mostBytes} bytes
     */
    public static Optional<String> text(String path, int mostBytes) throws IOException {
        return text(CURRENT_DIRECTORY, path, mostBytes);
    }

    static Optional<String> text(int folder, String path, int mostBytes) throws IOException {
        Pointer memory = MEMORY.get();
        int descriptor = open(folder, path, LibC.OPEN_CLOSE_ON_EXEC);
        if (descriptor < 0) {
            return goneOrThrow(path, LibC.errno());
        }
        try {
            byte[] all = new byte[PIECE_BYTES];
            int used = 0;
            while (true) {
                long length = LibC.CALLS.pread(descriptor, memory.address() + ANSWER_OFFSET, PIECE_BYTES, used);
                if (length < 0) {
                    return goneOrThrow(path, LibC.errno());
                }
                if (length == 0) {
                    return Optional.of(new String(all, 0, used, StandardCharsets.ISO_8859_1));
                }
                if (used + length > mostBytes) {
                    throw new IOException(path + " has more than " + mostBytes + " bytes");
                }
                if (used + length > all.length) {
                    all = Arrays.copyOf(all, Math.max(all.length * 2, used + (int) length));
                }
                memory.get(ANSWER_OFFSET, all, used, (int) length);
                used += (int) length;
            }
        } finally {
            LibC.CALLS.close(descriptor);
        }
    }

    /** Returns the owner of the file behind a path, from the kernel's cache. */
    public static OptionalInt owner(String path) throws IOException {
        return owner(CURRENT_DIRECTORY, "", path);
    }

    static OptionalInt owner(int folder, String folderPath, String path) throws IOException {
        Pointer memory = MEMORY.get();
        int errno = statx(folder, path, FROM_CACHE, memory);
        return errno == 0 ? OptionalInt.of(memory.getInt(UID_OFFSET)) : attribute(errno, folderPath, path, "unix:uid");
    }

    static OptionalInt linkMode(int folder, String folderPath, String path) throws IOException {
        Pointer memory = MEMORY.get();
        int errno = statx(folder, path, FROM_CACHE | LINK_ITSELF, memory);
        return errno == 0
                ? OptionalInt.of(memory.getShort(MODE_OFFSET) & 0xffff)
                : attribute(errno, folderPath, path, "unix:mode", LinkOption.NOFOLLOW_LINKS);
    }

    /** Reads the attribute by stat(2), for a kernel without statx(2). */
    private static OptionalInt attribute(
            int errno, String folderPath, String path, String attribute, LinkOption... options) throws IOException {
        Optional<Integer> value = errno == ENOSYS
                ? Optional.of((Integer) Files.getAttribute(Path.of(folderPath, path), attribute, options))
                : goneOrThrow(path, errno);
        return value.isPresent() ? OptionalInt.of(value.get()) : OptionalInt.empty();
    }

    /** Calls statx(2). Returns the error number, or 0. */
    private static int statx(int folder, String path, int flags, Pointer memory) throws IOException {
        return LibC.CALLS.syscall(STATX, folder, named(path, memory), flags, BASIC, memory.address(), 0) == 0
                ? 0
                : LibC.errno();
    }

    /** Returns the type and attributes of the file behind a path, from the kernel's cache. */
    public static Optional<FileStatus> status(String path) throws IOException {
        return status(CURRENT_DIRECTORY, "", path);
    }

    static Optional<FileStatus> status(int folder, String folderPath, String path) throws IOException {
        Pointer memory = MEMORY.get();
        int errno = statx(folder, path, FROM_CACHE, memory);
        if (errno != 0) {
            return errno == ENOSYS ? statusBeforeStatx(Path.of(folderPath, path).toString()) : goneOrThrow(path, errno);
        }
        byte[] bytes = new byte[STATX_BYTES];
        memory.get(0, bytes, 0, bytes.length);
        ByteBuffer fields = ByteBuffer.wrap(bytes).order(ByteOrder.nativeOrder());
        return Optional.of(new FileStatus(
                fields.getShort(MODE_OFFSET) & 0xffff,
                fields.getInt(LINKS_OFFSET),
                fields.getLong(INODE_OFFSET),
                fields.getInt(DEV_MAJOR_OFFSET) + ":" + fields.getInt(DEV_MAJOR_OFFSET + Integer.BYTES),
                fields.getInt(RDEV_MAJOR_OFFSET),
                fields.getInt(RDEV_MAJOR_OFFSET + Integer.BYTES),
                fields.getLong(BLOCKS_OFFSET) * BLOCK_BYTES,
                fields.getInt(UID_OFFSET),
                fields.getInt(GID_OFFSET)));
    }

    /** Returns the protocol of a socket behind a path, such as {@code TCPv6}; empty if it is not a socket. */
    public static Optional<String> socketProtocol(String path) {
        byte[] to = new byte[LONGEST_PROTOCOL_BYTES];
        long length = LibC.CALLS.getxattr(terminated(path), terminated("system.sockprotoname"), to, to.length);
        return length <= 0
                ? Optional.empty()
                : Optional.of(new String(to, 0, (int) length, StandardCharsets.ISO_8859_1).replace("\0", ""));
    }

    /** Returns the kernel's number for the type of a file's filesystem, statfs(2). */
    public static Optional<Long> filesystemType(String path) throws IOException {
        byte[] to = new byte[STATFS_BYTES];
        return LibC.CALLS.statfs(terminated(path), to) == 0
                ? Optional.of(ByteBuffer.wrap(to).order(ByteOrder.nativeOrder()).getLong(0))
                : goneOrThrow(path, LibC.errno());
    }

    /**
     * Reads the attributes by stat(2), for kernels before Linux 4.11. This blocks if the server of the filesystem does
     * not respond.
     */
    static Optional<FileStatus> statusBeforeStatx(String path) throws IOException {
        try {
            Map<String, Object> fields =
                    Files.readAttributes(Path.of(path), "unix:mode,nlink,ino,dev,rdev,size,uid,gid");
            long device = (Long) fields.get("dev");
            long special = (Long) fields.get("rdev");
            return Optional.of(new FileStatus(
                    (Integer) fields.get("mode"),
                    (Integer) fields.get("nlink"),
                    (Long) fields.get("ino"),
                    major(device) + ":" + minor(device),
                    major(special),
                    minor(special),
                    (Long) fields.get("size"),
                    (Integer) fields.get("uid"),
                    (Integer) fields.get("gid")));
        } catch (NoSuchFileException e) {
            return Optional.empty();
        }
    }

    /** Decodes the C library's dev_t, makedev(3). */
    private static int major(long device) {
        return (int) (((device >>> 8) & 0xfff) | ((device >>> 32) & 0xfffff000L));
    }

    private static int minor(long device) {
        return (int) ((device & 0xff) | ((device >>> 12) & 0xffffff00L));
    }

    static byte[] terminated(String path) {
        byte[] bytes = path.getBytes(StandardCharsets.ISO_8859_1);
        return Arrays.copyOf(bytes, bytes.length + 1);
    }

    /**
     * Returns whether a read of the JDK's failed because the process, thread or descriptor no longer exists. A process
     * without memory, which is about to end, fails with ESRCH; the JDK has no exception of its own for that.
     */
    public static boolean meansGone(IOException e) {
        return e instanceof NoSuchFileException
                || String.valueOf(e.getMessage()).contains(LibC.CALLS.strerror(ESRCH));
    }

    static <T> Optional<T> goneOrThrow(String path, int errno) throws IOException {
        if (errno == ENOENT || errno == ESRCH || errno == ENOTDIR) {
            return Optional.empty();
        }
        if (errno == EACCES || errno == EPERM) {
            throw new AccessDeniedException(path, null, LibC.describe(errno));
        }
        throw new IOException(path + " cannot be read: " + LibC.describe(errno));
    }
}
