package io.ppmr.checkpoint;

import io.ppmr.linux.LibC;
import java.io.IOException;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import java.nio.file.AccessDeniedException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Map;
import java.util.Optional;
import java.util.function.IntConsumer;

/**
 * Holds the object at a path where a user can substitute another object at any time: a link, a FIFO, a file of any
 * size. It uses a descriptor ({@code O_PATH}) that follows no link in the path's last component. It opens nothing and
 * so blocks on nothing. All queries and reads use the held object, whatever happens to the name. Links before the last
 * component are followed. Owned by the thread that made it, until it is closed.
 */
public final class UserPath implements AutoCloseable {
    /** Maximum size of texts that are read in this way: a PID, an announcement. */
    public static final int MAX_TEXT_BYTES = 4096;

    private static final Charset NAMES =
            Charset.forName(System.getProperty("sun.jnu.encoding", StandardCharsets.UTF_8.name()));
    private static final Path DESCRIPTORS = Path.of("/proc/self/fd");

    // The constants of open(2), fcntl.h. They hold for x86-64 and AArch64, which differ only in O_NOFOLLOW.
    private static final int O_RDONLY = 0;
    private static final int O_NONBLOCK = 0x800;
    private static final int O_NOFOLLOW = System.getProperty("os.arch").equals("aarch64") ? 0x8000 : 0x20000;
    private static final int O_CLOEXEC = 0x80000;
    private static final int O_PATH = 0x200000;

    private static final int ENOENT = 2;
    private static final int EINTR = 4;
    private static final int EAGAIN = 11;
    private static final int EACCES = 13;
    private static final int ENOTDIR = 20;

    private static final int TYPE = 0170000;
    private static final int REGULAR = 0100000;
    private static final int DIRECTORY = 0040000;
    private static final int LINK = 0120000;
    private static final int ROOT = 0;

    private final Path path;
    private final int descriptor;
    private final int mode;
    private final int uid;
    private final int gid;

    private UserPath(Path path, int descriptor) throws IOException {
        this.path = path;
        this.descriptor = descriptor;
        Map<String, Object> attributes = Files.readAttributes(place(), "unix:mode,uid,gid");
        this.mode = (int) attributes.get("mode");
        this.uid = (int) attributes.get("uid");
        this.gid = (int) attributes.get("gid");
    }

    /**
     * Opens the object that is at the path now.
     *
     * @throws NoSuchFileException if there is none
     */
    public static UserPath hold(Path path) throws IOException {
        return hold(path, path);
    }

    /** Opens an entry of the held directory. */
    public UserPath entry(Path name) throws IOException {
        return hold(directory().resolve(name), path.resolve(name));
    }

    private static UserPath hold(Path path, Path called) throws IOException {
        int descriptor = open(path, called, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        try {
            return new UserPath(called, descriptor);
        } catch (IOException | RuntimeException e) {
            LibC.CALLS.close(descriptor);
            throw e;
        }
    }

    /**
     * Returns the text of a regular file of the job's user, of root or of the service's own user, or empty if there is
     * no such file.
     *
     * @param limitBytes a longer file is refused
     */
    public static Optional<String> read(Path path, JobUser user, int limitBytes) throws IOException {
        try (UserPath file = hold(path)) {
            if (file.uid != user.uid()
                    && file.uid != ROOT
                    && file.uid != JobUser.ofService().uid()) {
                throw new IOException(path + " belongs to user " + file.uid + ". Remedy: it must belong to the job's"
                        + " user " + user.uid() + ", or to root");
            }
            return Optional.of(file.read(limitBytes));
        } catch (NoSuchFileException none) {
            return Optional.empty();
        }
    }

    /** Returns the last bytes of a regular file of any user, or empty if there is no such file. */
    static Optional<String> tail(Path path, int bytes) throws IOException {
        try (UserPath file = hold(path)) {
            return Optional.of(file.tail(bytes));
        } catch (NoSuchFileException none) {
            return Optional.empty();
        }
    }

    /** Returns the path by which it was opened. */
    public Path path() {
        return path;
    }

    /** Returns its owner. */
    public JobUser owner() {
        return new JobUser(uid, gid);
    }

    private void requireRegular() throws IOException {
        if ((mode & TYPE) != REGULAR) {
            throw new IOException(path + " is " + ((mode & TYPE) == LINK ? "a symbolic link" : "no regular file")
                    + ", and is not opened. Remedy: put a regular file there");
        }
    }

    public boolean isRegular() {
        return (mode & TYPE) == REGULAR;
    }

    public boolean isDirectory() {
        return (mode & TYPE) == DIRECTORY;
    }

    public boolean isLink() {
        return (mode & TYPE) == LINK;
    }

    /** Returns its present size. */
    public long sizeBytes() throws IOException {
        return (long) Files.getAttribute(place(), "unix:size");
    }

    /**
     * Reads a regular file from its beginning to its end. Any other object is refused.
     *
     * @param buffer receives one piece after the other
     * @param piece receives the size of the next piece in the buffer
     */
    public void read(byte[] buffer, IntConsumer piece) throws IOException {
        requireRegular();
        int readable = open(place(), path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
        try {
            long offset = 0;
            for (int got = pread(readable, buffer, offset); got > 0; got = pread(readable, buffer, offset)) {
                piece.accept(got);
                offset += got;
            }
        } finally {
            LibC.CALLS.close(readable);
        }
    }

    private int pread(int readable, byte[] buffer, long offset) throws IOException {
        while (true) {
            long got = LibC.CALLS.pread(readable, buffer, buffer.length, offset);
            if (got >= 0) {
                return (int) got;
            }
            if (LibC.errno() != EINTR) {
                throw new IOException(path + " cannot be read: " + LibC.describe(LibC.errno()));
            }
        }
    }

    /** Returns a path to the entries of the held directory, valid as long as it is held. */
    public Path directory() throws IOException {
        if ((mode & TYPE) != DIRECTORY) {
            throw new IOException(path + " is no directory");
        }
        return place();
    }

    /**
     * Returns the whole text, as UTF-8. Only a regular file is accepted.
     *
     * @param limitBytes a longer file is refused
     */
    public String read(int limitBytes) throws IOException {
        // One byte more than allowed shows that the file is too long, whatever size it has.
        byte[] bytes = bytes(0, limitBytes + 1);
        if (bytes.length > limitBytes) {
            throw new IOException(
                    path + " is longer than " + limitBytes + " bytes. Remedy: correct the program that writes it");
        }
        return new String(bytes, StandardCharsets.UTF_8);
    }

    private String tail(int bytes) throws IOException {
        return new String(bytes(Math.max(0, sizeBytes() - bytes), bytes), StandardCharsets.UTF_8);
    }

    private byte[] bytes(long offset, int limitBytes) throws IOException {
        requireRegular();
        // Without O_NONBLOCK the owner could block the open by a lease, fcntl(2).
        int readable = open(place(), path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
        try {
            byte[] bytes = new byte[limitBytes];
            int length = 0;
            while (length < limitBytes) {
                byte[] piece = new byte[limitBytes - length];
                int got = pread(readable, piece, offset + length);
                if (got == 0) {
                    break;
                }
                System.arraycopy(piece, 0, bytes, length, got);
                length += got;
            }
            return Arrays.copyOf(bytes, length);
        } finally {
            LibC.CALLS.close(readable);
        }
    }

    private Path place() {
        return DESCRIPTORS.resolve(Integer.toString(descriptor));
    }

    /** @param called its name in messages */
    private static int open(Path place, Path called, int flags) throws IOException {
        byte[] name = place.toString().getBytes(NAMES);
        byte[] terminated = Arrays.copyOf(name, name.length + 1);
        int descriptor = LibC.CALLS.open(terminated, flags);
        int errno = descriptor < 0 ? LibC.errno() : 0;
        while (errno == EINTR) {
            descriptor = LibC.CALLS.open(terminated, flags);
            errno = descriptor < 0 ? LibC.errno() : 0;
        }
        return switch (errno) {
            case 0 -> descriptor;
            case ENOENT, ENOTDIR -> throw new NoSuchFileException(called.toString());
            case EACCES -> throw new AccessDeniedException(called.toString(), null, "permission denied");
            case EAGAIN ->
                throw new IOException(
                        called + " has a lease, and is not opened. Remedy: end the process" + " that has it");
            default -> throw new IOException(called + " cannot be opened: " + LibC.describe(errno));
        };
    }

    @Override
    public void close() {
        LibC.CALLS.close(descriptor);
    }
}
