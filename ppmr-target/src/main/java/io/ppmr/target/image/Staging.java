package io.ppmr.target.image;

import io.ppmr.linux.LibC;
import io.ppmr.linux.LogContext;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * The storage for bytes that the pool does not keep. Each file with such bytes has a {@link StagedFile} in it. Counts
 * the used pages of all files, so that a migration uses no more than its limit.
 *
 * <p>Each session has one. The session's agent reserves space before bytes are sent that go here; any thread releases
 * it. The lock is held only for counter updates.
 */
public final class Staging implements AutoCloseable {
    /** The leaves of all page maps together: 128 MiB of memory, enough for 4 TiB. */
    static final int MAX_LEAVES = 1 << 17;

    /** Runs of bytes of incomplete pages, of all files together. */
    static final int MAX_PARTS = 1 << 17;

    /** EOPNOTSUPP. */
    private static final int NOT_SUPPORTED = 95;

    private final Path directory;
    private final long limitBytes;

    // Guarded by the monitor.
    private long usedBytes;
    private long reservedBytes;
    private long writtenBytes;
    private int leaves;
    private int parts;
    private ExecutorService closer;

    /**
     * @param directory the directory of its files, to which no user can write
     * @param limitBytes the limit of their sizes together, 0 for none
     */
    public Staging(Path directory, long limitBytes) {
        this.directory = directory;
        this.limitBytes = limitBytes;
    }

    /** The maximum memory of a migration's page maps. */
    public static final long MAX_MAP_BYTES = (long) MAX_LEAVES * PageMap.LEAF_BYTES;

    /** Returns the maximum memory of the page maps of an image of this size. */
    public static long mapBytes(long imageBytes) {
        return (imageBytes / PageMap.PAGE_BYTES / PageMap.LEAF_PAGES + 1) * PageMap.LEAF_BYTES;
    }

    /** Returns the bytes that its files use. Any thread. */
    public synchronized long usedBytes() {
        return usedBytes;
    }

    /** Returns the bytes that were written to its files. Any thread. */
    public synchronized long writtenBytes() {
        return writtenBytes;
    }

    /** Returns the reason why there is no space, for messages. */
    String whyNone() {
        return "staging is limited to " + limitBytes + " bytes";
    }

    /**
     * Reserves space for bytes that will arrive, if there is enough. Bytes that are removed while credits are unused
     * may be written again by these. So the limit may be exceeded by up to the size of the pool.
     */
    synchronized boolean reserve(long bytes) {
        boolean possible = bytes == 0 || usedBytes + reservedBytes + bytes <= limitBytes;
        reservedBytes += possible ? bytes : 0;
        return possible;
    }

    /** Releases reserved space that was used, or will not be. */
    synchronized void release(long reserved) {
        reservedBytes -= reserved;
    }

    /** Counts bytes that were written to a file, and their storage. */
    synchronized void addWritten(long bytes, long takenBytes) {
        writtenBytes += bytes;
        usedBytes += takenBytes;
    }

    /** Counts storage that a file no longer uses. */
    synchronized void addFreed(long bytes) {
        usedBytes -= bytes;
    }

    /** Counts a new leaf of a page map. */
    synchronized void claimLeaf() throws ImageException {
        if (leaves == MAX_LEAVES) {
            throw new ImageException("its bytes in staging are spread over more than " + MAX_LEAVES
                    + " parts of 32 MiB: configure the checkpointer to write its files without holes");
        }
        leaves++;
    }

    synchronized void releaseLeaf() {
        leaves--;
    }

    /** Returns the memory of the page maps. */
    synchronized long mapBytes() {
        return (long) leaves * PageMap.LEAF_BYTES;
    }

    /** Claims runs of bytes of incomplete pages before they are added. */
    synchronized void claimParts(int most) throws ImageException {
        if (parts + most > MAX_PARTS) {
            throw new ImageException("its bytes arrive in more than " + MAX_PARTS
                    + " pieces that are not whole pages: configure the checkpointer to write larger pieces");
        }
        parts += most;
    }

    /** Returns claimed runs that were not added, or no longer exist. */
    synchronized void releaseParts(int count) {
        parts -= count;
    }

    /** Creates an unnamed file of mode 0600, and returns its descriptor. */
    int open() throws ImageException {
        try {
            Path path = Files.createTempFile(
                    directory,
                    "ppmr-staging-",
                    "",
                    PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------")));
            try {
                return open(path);
            } finally {
                Files.delete(path);
            }
        } catch (IOException e) {
            throw new ImageException("staging in " + directory + " cannot create a file: " + e.getMessage()
                    + ". Raise the limit on open files (LimitNOFILE), or name another folder (staging.directory)");
        }
    }

    private int open(Path path) throws IOException {
        byte[] name = (path + "\0").getBytes(StandardCharsets.UTF_8);
        int flags = LibC.OPEN_READ_WRITE | LibC.OPEN_NO_LINK | LibC.OPEN_CLOSE_ON_EXEC;
        int descriptor = LibC.CALLS.open(name, flags);
        if (descriptor < 0) {
            throw new IOException(LibC.describe(LibC.errno()));
        }
        return descriptor;
    }

    /** Closes a file on a background thread, because freeing its pages takes about a second for ten GiB. */
    synchronized void closeLater(int descriptor) {
        if (closer == null) {
            closer = Executors.newSingleThreadExecutor(closing -> LogContext.thread(closing, "staging-closer"));
        }
        closer.execute(() -> LibC.CALLS.close(descriptor));
    }

    /** Has the filesystem free a range of a file. A filesystem without holes keeps it until the file is closed. */
    void punch(int descriptor, long start, long end) throws ImageException {
        if (LibC.CALLS.fallocate(descriptor, LibC.PUNCH_HOLE, start, end - start) != 0
                && LibC.errno() != NOT_SUPPORTED) {
            throw failure("fallocate", LibC.describe(LibC.errno()));
        }
    }

    /** Refuses further opens and background closes of files. */
    @Override
    public synchronized void close() {
        if (closer != null) {
            closer.shutdown();
        }
    }

    /** Returns the error of a failed call on one of its files. */
    ImageException failure(String call, String reason) {
        return new ImageException("staging in " + directory + " failed at " + call + ": " + reason
                + ". Free room there, or name another folder (staging.directory)");
    }
}
