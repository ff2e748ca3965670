package io.ppmr.fuse;

import com.kenai.jffi.MemoryIO;
import java.util.List;
import java.util.concurrent.atomic.LongAdder;

/**
 * Discards writes and serves reads from one off-heap buffer, and counts them. For measurements of the path through
 * FUSE.
 */
final class NullView implements FilesystemView {
    static final int BUFFER_BYTES = 128 * 1024;
    private static final MemoryIO MEMORY = MemoryIO.getInstance();
    private static final long HUGE_BYTES = 1L << 50;

    final LongAdder bytes = new LongAdder();
    final LongAdder calls = new LongAdder();
    private final long buffer = MEMORY.allocateMemory(BUFFER_BYTES, true);

    void free() {
        MEMORY.freeMemory(buffer);
    }

    private static FileAttributes of(String path) {
        return "/".equals(path)
                ? new FileAttributes(1, FileType.DIRECTORY | 0777, 2, 0, 0, 0, 0)
                : new FileAttributes(path.hashCode() & 0x7FFFFFFFL, FileType.REGULAR | 0666, 1, 0, 0, HUGE_BYTES, 0);
    }

    @Override
    public FileAttributes attributes(String path) {
        return of(path);
    }

    @Override
    public FileAttributes attributes(long handle) {
        return of("/file");
    }

    @Override
    public List<String> list(String path) {
        return List.of();
    }

    @Override
    public String readLink(String path) throws ErrnoException {
        throw new ErrnoException(Errno.EINVAL, path + " is no symbolic link");
    }

    @Override
    public long open(String path, OpenFlags flags, CallingProcess caller) {
        return 1;
    }

    @Override
    public long create(String path, OpenFlags flags, int mode, CallingProcess caller) {
        return 1;
    }

    @Override
    public int read(long handle, long address, int lengthBytes, long offset) {
        MEMORY.copyMemory(buffer, address, lengthBytes);
        count(lengthBytes);
        return lengthBytes;
    }

    @Override
    public int write(long handle, long address, int lengthBytes, long offset) {
        MEMORY.copyMemory(address, buffer, lengthBytes);
        count(lengthBytes);
        return lengthBytes;
    }

    private void count(int lengthBytes) {
        bytes.add(lengthBytes);
        calls.increment();
    }

    @Override
    public void fsync(long handle) {}

    @Override
    public void release(long handle) {}

    @Override
    public void truncate(String path, long sizeBytes) {}

    @Override
    public void truncate(long handle, long sizeBytes) {}

    @Override
    public void allocate(long handle, int mode, long offset, long lengthBytes) {}

    @Override
    public void makeDirectory(String path, int mode, CallingProcess caller) {}

    @Override
    public void removeDirectory(String path) {}

    @Override
    public void symlink(String target, String path, CallingProcess caller) {}

    @Override
    public void rename(String from, String to) {}

    @Override
    public void unlink(String path) {}

    @Override
    public void changeMode(String path, int mode) {}

    @Override
    public void changeOwner(String path, int uid, int gid) {}

    @Override
    public void changeModificationTime(String path, long epochNs) {}

    @Override
    public Capacity capacity() {
        return new Capacity(4096, 1, 1, 1);
    }
}
