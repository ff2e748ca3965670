package io.ppmr.bench.node;

import io.ppmr.fuse.Errno;
import io.ppmr.fuse.ErrnoException;
import io.ppmr.fuse.FileAttributes;
import io.ppmr.fuse.FileType;
import io.ppmr.fuse.FilesystemView;
import io.ppmr.fuse.FilesystemView.Capacity;
import io.ppmr.fuse.FuseMount;
import io.ppmr.fuse.MountOptions;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;

/**
 * A mount whose reads and writes do nothing. It shows the cost of a call in the binding, in time and in allocated
 * bytes.
 */
final class NullNode implements NodeMain.BenchNode {
    private static final Capacity NO_CAPACITY = new Capacity(4096, 0, 0, 0);

    private final FuseMount mount;

    NullNode(Path mountPoint) throws Exception {
        mount = FuseMount.mount(new NullView(), mountPoint, MountOptions.named("ppmr-bench"));
    }

    @Override
    public String begin(List<String> words) {
        return "";
    }

    @Override
    public void end() {
        // No resource has to be freed.
    }

    @Override
    public void close() throws IOException {
        mount.close();
    }

    /** Every name is a file. No bytes are kept. */
    private static final class NullView implements FilesystemView {
        private static final FileAttributes ROOT = new FileAttributes(1, FileType.DIRECTORY | 0755, 2, 0, 0, 0, 0);
        private static final FileAttributes FILE = new FileAttributes(2, FileType.REGULAR | 0666, 1, 0, 0, 0, 0);

        @Override
        public FileAttributes attributes(String path) {
            return path.equals("/") ? ROOT : FILE;
        }

        @Override
        public FileAttributes attributes(long handle) {
            return FILE;
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
        public long open(String path, io.ppmr.fuse.OpenFlags flags, CallingProcess caller) {
            return 1;
        }

        @Override
        public long create(String path, io.ppmr.fuse.OpenFlags flags, int mode, CallingProcess caller) {
            return 1;
        }

        @Override
        public int read(long handle, long address, int lengthBytes, long offset) {
            return lengthBytes;
        }

        @Override
        public int write(long handle, long address, int lengthBytes, long offset) {
            return lengthBytes;
        }

        @Override
        public void fsync(long handle) {
            // It keeps no bytes.
        }

        @Override
        public void release(long handle) {
            // It keeps no bytes.
        }

        @Override
        public void truncate(String path, long sizeBytes) {
            // It keeps no bytes.
        }

        @Override
        public void truncate(long handle, long sizeBytes) {
            // It keeps no bytes.
        }

        @Override
        public void allocate(long handle, int mode, long offset, long lengthBytes) throws ErrnoException {
            throw new ErrnoException(Errno.ENOTSUP, "fallocate");
        }

        @Override
        public Capacity capacity() {
            return NO_CAPACITY;
        }
    }
}
