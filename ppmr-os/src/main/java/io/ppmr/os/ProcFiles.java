package io.ppmr.os;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.AccessDeniedException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Map;
import java.util.Optional;
import jnr.ffi.Memory;
import jnr.ffi.Pointer;
import jnr.ffi.Runtime;

/**
 * Reads links and small files of proc(5) by calls of the C library. A name in there is bytes: each becomes one
 * character, whatever the locale. A process or a descriptor that ended is an empty result; one that this service may
 * not read is an {@link AccessDeniedException}. Any thread.
 */
public final class ProcFiles {
    private static final int LONGEST_LINK_BYTES = 8192;
    private static final int PIECE_BYTES = 4096;
    private static final int O_CLOEXEC = 02000000;
    private static final int EPERM = 1;
    private static final int ENOENT = 2;
    private static final int ESRCH = 3;
    private static final int EACCES = 13;
    private static final int ENOTDIR = 20;
    private static final int ENAMETOOLONG = 36;
    private static final int ENOSYS = 38;

    /** The text of a link to a file whose path is longer than the kernel shows: any user can have one open. */
    public static final String UNSHOWN_PATH = "/(a path that is too long to be shown)";

    /** The number of statx(2), which is not the same on x86-64 and AArch64. */
    private static final long STATX = System.getProperty("os.arch").equals("aarch64") ? 291 : 332;

    private static final int CURRENT_DIRECTORY = -100;
    /** AT_STATX_DONT_SYNC: no server of a filesystem is asked, which could hang. */
    private static final int FROM_CACHE = 0x4000;
    /** STATX_BASIC_STATS. */
    private static final int BASIC = 0x7ff;

    private static final int STATX_BYTES = 256;
    private static final int LINKS_OFFSET = 16;
    private static final int MODE_OFFSET = 28;
    private static final int INODE_OFFSET = 32;
    private static final int BLOCKS_OFFSET = 48;
    private static final int RDEV_MAJOR_OFFSET = 128;
    private static final int DEV_MAJOR_OFFSET = 136;

    /** A block of stat(2), whatever the filesystem's own are. */
    private static final int BLOCK_BYTES = 512;

    private static final int STATFS_BYTES = 256;
    private static final int LONGEST_PROTOCOL_BYTES = 64;
    private static final int LONGEST_PATH_BYTES = 4096;
    /** The result of statx(2), and the path behind it. */
    private static final ThreadLocal<Pointer> MEMORY = ThreadLocal.withInitial(
            () -> Memory.allocateDirect(Runtime.getSystemRuntime(), STATX_BYTES + LONGEST_PATH_BYTES));

    private ProcFiles() {}

    /**
     * The type and the number of a file.
     *
     * @param mode its type and permissions, inode(7)
     * @param links its names
     * @param inode its number in its filesystem
     * @param device its filesystem, as MAJOR:MINOR in decimal
     * @param major of a device file, the number of its driver
     * @param minor of a device file, the number of its device
     */
    public record FileStatus(int mode, int links, long inode, String device, int major, int minor) {
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
        byte[] to = new byte[LONGEST_LINK_BYTES];
        long length = LibC.CALLS.readlink(terminated(path), to, to.length);
        if (length < 0) {
            int errno = LibC.errno();
            return errno == ENAMETOOLONG ? Optional.of(UNSHOWN_PATH) : goneOrThrow(path, errno);
        }
        return Optional.of(new String(to, 0, (int) length, StandardCharsets.ISO_8859_1));
    }

    /**
     * Returns a whole file.
     *
     * @throws IOException if it has more bytes than that, too
     */
    public static Optional<String> text(String path, int mostBytes) throws IOException {
        int descriptor = LibC.CALLS.open(terminated(path), O_CLOEXEC);
        if (descriptor < 0) {
            return goneOrThrow(path, LibC.errno());
        }
        try {
            byte[] all = new byte[PIECE_BYTES];
            int used = 0;
            byte[] piece = new byte[PIECE_BYTES];
            while (true) {
                long length = LibC.CALLS.pread(descriptor, piece, piece.length, used);
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
                System.arraycopy(piece, 0, all, used, (int) length);
                used += (int) length;
            }
        } finally {
            LibC.CALLS.close(descriptor);
        }
    }

    /** Returns the type and number of the file behind a path, as the kernel has them in its memory. */
    public static Optional<FileStatus> status(String path) throws IOException {
        Optional<ByteBuffer> fields = statx(path);
        if (fields.isEmpty()) {
            return Optional.empty();
        }
        ByteBuffer found = fields.get();
        return found.capacity() == 0
                ? statusBeforeStatx(path)
                : Optional.of(new FileStatus(
                        found.getShort(MODE_OFFSET) & 0xffff,
                        found.getInt(LINKS_OFFSET),
                        found.getLong(INODE_OFFSET),
                        found.getInt(DEV_MAJOR_OFFSET) + ":" + found.getInt(DEV_MAJOR_OFFSET + Integer.BYTES),
                        found.getInt(RDEV_MAJOR_OFFSET),
                        found.getInt(RDEV_MAJOR_OFFSET + Integer.BYTES)));
    }

    /** Returns the bytes of a file that take room in its filesystem; 0 from a kernel before Linux 4.11. */
    public static Optional<Long> allocatedBytes(String path) throws IOException {
        return statx(path).map(fields -> fields.capacity() == 0 ? 0L : fields.getLong(BLOCKS_OFFSET) * BLOCK_BYTES);
    }

    /** Returns the fields of statx(2); none in the buffer from a kernel that has no such call. */
    private static Optional<ByteBuffer> statx(String path) throws IOException {
        byte[] name = terminated(path);
        if (name.length > LONGEST_PATH_BYTES) {
            throw new IOException(path + " is longer than a path can be");
        }
        Pointer memory = MEMORY.get();
        memory.put(STATX_BYTES, name, 0, name.length);
        if (LibC.CALLS.syscall(
                        STATX,
                        CURRENT_DIRECTORY,
                        memory.address() + STATX_BYTES,
                        FROM_CACHE,
                        BASIC,
                        memory.address(),
                        0)
                != 0) {
            int errno = LibC.errno();
            return errno == ENOSYS ? Optional.of(ByteBuffer.allocate(0)) : goneOrThrow(path, errno);
        }
        byte[] bytes = new byte[STATX_BYTES];
        memory.get(0, bytes, 0, bytes.length);
        return Optional.of(ByteBuffer.wrap(bytes).order(ByteOrder.nativeOrder()));
    }

    /** Returns the protocol of a socket behind a path, such as {@code TCPv6}; empty if the path leads to none. */
    public static Optional<String> socketProtocol(String path) {
        byte[] to = new byte[LONGEST_PROTOCOL_BYTES];
        long length = LibC.CALLS.getxattr(terminated(path), terminated("system.sockprotoname"), to, to.length);
        return length <= 0
                ? Optional.empty()
                : Optional.of(new String(to, 0, (int) length, StandardCharsets.ISO_8859_1).replace("\0", ""));
    }

    /** Returns the number that the kernel has for the type of a file's filesystem, statfs(2). */
    public static Optional<Long> filesystemType(String path) throws IOException {
        byte[] to = new byte[STATFS_BYTES];
        return LibC.CALLS.statfs(terminated(path), to) == 0
                ? Optional.of(ByteBuffer.wrap(to).order(ByteOrder.nativeOrder()).getLong(0))
                : goneOrThrow(path, LibC.errno());
    }

    /** The same by stat(2), for kernels before Linux 4.11: there a server that does not answer holds it up. */
    static Optional<FileStatus> statusBeforeStatx(String path) throws IOException {
        try {
            Map<String, Object> fields = Files.readAttributes(Path.of(path), "unix:mode,nlink,ino,dev,rdev");
            long device = (Long) fields.get("dev");
            long special = (Long) fields.get("rdev");
            return Optional.of(new FileStatus(
                    (Integer) fields.get("mode"),
                    (Integer) fields.get("nlink"),
                    (Long) fields.get("ino"),
                    major(device) + ":" + minor(device),
                    major(special),
                    minor(special)));
        } catch (NoSuchFileException e) {
            return Optional.empty();
        }
    }

    /** The numbers in the C library's dev_t, makedev(3). */
    private static int major(long device) {
        return (int) (((device >>> 8) & 0xfff) | ((device >>> 32) & 0xfffff000L));
    }

    private static int minor(long device) {
        return (int) ((device & 0xff) | ((device >>> 12) & 0xffffff00L));
    }

    private static byte[] terminated(String path) {
        byte[] bytes = path.getBytes(StandardCharsets.ISO_8859_1);
        return Arrays.copyOf(bytes, bytes.length + 1);
    }

    private static <T> Optional<T> goneOrThrow(String path, int errno) throws IOException {
        if (errno == ENOENT || errno == ESRCH || errno == ENOTDIR) {
            return Optional.empty();
        }
        if (errno == EACCES || errno == EPERM) {
            throw new AccessDeniedException(path, null, LibC.describe(errno));
        }
        throw new IOException(path + " cannot be read: " + LibC.describe(errno));
    }
}
