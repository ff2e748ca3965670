package io.ppmr.fuse;

import java.io.IOException;
import java.io.Serializable;
import java.util.List;

/**
 * A filesystem as a client sees it, which {@link FilesystemViewContract} drives, once against a view and once against a
 * mount of it. Errors are a {@link Failure} with the errno's name. Many threads may call.
 */
public interface FilesystemDriver extends AutoCloseable {
    /** The result of stat(2). */
    record Stat(int mode, int uid, long sizeBytes, long modifiedEpochS) implements Serializable {}

    /** A call that failed; {@code errno} is a name such as ENOENT. */
    final class Failure extends IOException {
        private static final long serialVersionUID = 1L;

        private final String errno;

        public Failure(String errno, String message) {
            super(errno + ": " + message);
            this.errno = errno;
        }

        public String errno() {
            return errno;
        }
    }

    /** Opens with any of the letters r (read), w (write), c (create), x (exclusive), t (truncate). */
    int open(String path, String how) throws IOException;

    void close(int file) throws IOException;

    int write(int file, byte[] data, long offset) throws IOException;

    /** Reads up to {@code length} bytes, fewer only at the end of the file. */
    byte[] read(int file, int length, long offset) throws IOException;

    void fsync(int file) throws IOException;

    long size(int file) throws IOException;

    void truncate(int file, long sizeBytes) throws IOException;

    Stat stat(String path) throws IOException;

    List<String> list(String path) throws IOException;

    void makeDirectory(String path) throws IOException;

    /** Unlinks a file or removes a directory. */
    void delete(String path) throws IOException;

    void rename(String from, String to) throws IOException;

    void symlink(String target, String path) throws IOException;

    String readLink(String path) throws IOException;

    void changeMode(String path, int permissions) throws IOException;

    void changeModificationTime(String path, long epochS) throws IOException;

    long capacityBytes() throws IOException;

    @Override
    void close() throws IOException;
}
