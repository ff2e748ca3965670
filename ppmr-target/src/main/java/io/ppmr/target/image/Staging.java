package io.ppmr.target.image;

import io.ppmr.os.LibC;
import io.ppmr.os.LogContext;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * The room for bytes that the pool does not keep: each file that has such bytes has a {@link StagedFile} in it. Counts
 * what all of them take together, in pages, so that a migration takes no more than its limit.
 *
 * <p>One for each session. Room is reserved by the session's agent before bytes are sent that go here; any thread gives
 * it back. The lock is held for moments.
 */
public final class Staging implements AutoCloseable {
    /** The leaves of all page maps together: 128 MiB of memory, enough for 4 TiB. */
    static final int MOST_LEAVES = 1 << 17;

    /** Runs of bytes of pages that are partly there, of all files together. */
    static final int MOST_PARTS = 1 << 17;

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
     * @param directory where its files are made, which no user can write to
     * @param limitBytes how much they may take together, 0 for nothing
     */
    public Staging(Path directory, long limitBytes) {
        this.directory = directory;
        this.limitBytes = limitBytes;
    }

    /** The most memory that a migration may take to know which pages have come. */
    public static final long MOST_MAP_BYTES = (long) MOST_LEAVES * PageMap.LEAF_BYTES;

    /** Gives the most memory that is taken to know which pages of an image of this size have come. */
    public static long mapBytes(long imageBytes) {
        return (imageBytes / PageMap.PAGE_BYTES / PageMap.LEAF_PAGES + 1) * PageMap.LEAF_BYTES;
    }

    /** Bytes that its files take. Any thread. */
    public synchronized long usedBytes() {
        return usedBytes;
    }

    /** Bytes that have gone to its files. Any thread. */
    public synchronized long writtenBytes() {
        return writtenBytes;
    }

    /** Returns the reason why there is no room, for messages. */
    String whyNone() {
        return "staging is limited to " + limitBytes + " bytes";
    }

    /**
     * Sets room aside for bytes that are to come, if there is any. What is removed while credits are out may be written
     * again by these, so a little more than the limit may be used: as much as the pool has.
     */
    synchronized boolean reserve(long bytes) {
        boolean possible = bytes == 0 || usedBytes + reservedBytes + bytes <= limitBytes;
        reservedBytes += possible ? bytes : 0;
        return possible;
    }

    /** Gives reserved room back: it was used, or will not be. */
    synchronized void release(long reserved) {
        reservedBytes -= reserved;
    }

    /** Counts bytes that were written to a file, and the room that they take. */
    synchronized void wrote(long bytes, long takenBytes) {
        writtenBytes += bytes;
        usedBytes += takenBytes;
    }

    /** Counts room that a file no longer takes. */
    synchronized void freed(long bytes) {
        usedBytes -= bytes;
    }

    /** A page map grows by a leaf. */
    synchronized void claimLeaf() throws ImageException {
        if (leaves == MOST_LEAVES) {
            throw new ImageException("its bytes in staging are spread over more than " + MOST_LEAVES
                    + " parts of 32 MiB: let the checkpointer write its files without holes");
        }
        leaves++;
    }

    synchronized void releaseLeaf() {
        leaves--;
    }

    /** Returns the memory that the page maps take. */
    synchronized long mapBytes() {
        return (long) leaves * PageMap.LEAF_BYTES;
    }

    /** Claims runs of bytes of partly written pages before they are made. */
    synchronized void claimParts(int most) throws ImageException {
        if (parts + most > MOST_PARTS) {
            throw new ImageException("its bytes come in more than " + MOST_PARTS
                    + " pieces that are no whole pages: let the checkpointer write larger pieces");
        }
        parts += most;
    }

    /** Returns claimed runs that were not made, or no longer exist. */
    synchronized void releaseParts(int count) {
        parts -= count;
    }

    /** Makes a file without a name, of mode 0600, and gives its descriptor. */
    int open() throws ImageException {
        try {
            Path path = Files.createTempFile(
                    directory,
                    "ppmr-staging-",
                    "",
                    PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------")));
            try {
                return opened(path);
            } finally {
                Files.delete(path);
            }
        } catch (IOException e) {
            throw new ImageException("staging in " + directory + " takes no file more: " + e.getMessage()
                    + ". Raise the limit on open files (LimitNOFILE), or name another folder (staging.directory)");
        }
    }

    private int opened(Path path) throws IOException {
        byte[] name = (path + "\0").getBytes(StandardCharsets.UTF_8);
        int flags = LibC.OPEN_READ_WRITE | LibC.OPEN_NO_LINK | LibC.OPEN_CLOSE_ON_EXEC;
        int descriptor = LibC.CALLS.open(name, flags);
        if (descriptor < 0) {
            throw new IOException(LibC.describe(LibC.errno()));
        }
        return descriptor;
    }

    /** Closes a file on a background thread: freeing its pages takes about a second for ten GiB. */
    synchronized void closeLater(int descriptor) {
        if (closer == null) {
            closer = Executors.newSingleThreadExecutor(closing -> LogContext.thread(closing, "staging-closer"));
        }
        closer.execute(() -> LibC.CALLS.close(descriptor));
    }

    /** Has the filesystem forget a range of a file; one that cannot keeps it until the file is closed. */
    void punch(int descriptor, long start, long end) throws ImageException {
        if (LibC.CALLS.fallocate(descriptor, LibC.PUNCH_HOLE, start, end - start) != 0
                && LibC.errno() != NOT_SUPPORTED) {
            throw cannot("fallocate", LibC.describe(LibC.errno()));
        }
    }

    /** Refuses further opens and closes of files. */
    @Override
    public synchronized void close() {
        if (closer != null) {
            closer.shutdown();
        }
    }

    /** A call on one of its files has failed. */
    ImageException cannot(String call, String reason) {
        return new ImageException("staging in " + directory + " fails at " + call + ": " + reason
                + ". Free room there, or name another folder (staging.directory)");
    }
}
