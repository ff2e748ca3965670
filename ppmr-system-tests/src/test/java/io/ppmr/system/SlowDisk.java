package io.ppmr.system;

import io.ppmr.fuse.Errno;
import io.ppmr.fuse.ErrnoException;
import io.ppmr.fuse.FileAttributes;
import io.ppmr.fuse.FilesystemView;
import io.ppmr.fuse.FuseMount;
import io.ppmr.fuse.HandleTable;
import io.ppmr.fuse.MountOptions;
import io.ppmr.fuse.NodeTree;
import io.ppmr.fuse.NodeTree.TreeNode;
import io.ppmr.fuse.OpenFlags;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/** A filesystem, mounted for one test, in which every write is delayed. It discards all written bytes. */
final class SlowDisk implements FilesystemView, AutoCloseable {
    private final NodeTree<Path> tree = new NodeTree<>(0, 0);
    private final HandleTable<String> handles = new HandleTable<>();
    private final AtomicInteger writes = new AtomicInteger();
    private final CountDownLatch closing = new CountDownLatch(1);
    private final long writeMs;
    private final FuseMount mount;

    SlowDisk(Path mountPoint, long writeMs) throws Exception {
        this.writeMs = writeMs;
        this.mount = FuseMount.mount(this, mountPoint, MountOptions.named("slow-disk"));
    }

    int writes() {
        return writes.get();
    }

    @Override
    public FileAttributes attributes(String path) throws ErrnoException {
        return tree.find(path).attributes(0);
    }

    @Override
    public FileAttributes attributes(long handle) throws ErrnoException {
        return attributes(handles.get(handle));
    }

    @Override
    public List<String> list(String path) throws ErrnoException {
        return tree.list(path);
    }

    @Override
    public String readLink(String path) throws ErrnoException {
        throw new ErrnoException(Errno.EINVAL, path);
    }

    @Override
    public long open(String path, OpenFlags flags, CallingProcess caller) throws ErrnoException {
        tree.find(path);
        return handles.add(path, caller.uid());
    }

    @Override
    public long create(String path, OpenFlags flags, int mode, CallingProcess caller) throws ErrnoException {
        tree.addFile(path, mode & 07777, caller.uid(), caller.gid(), Path.of(path));
        return handles.add(path, caller.uid());
    }

    @Override
    public int read(long handle, long address, int lengthBytes, long offset) {
        return 0;
    }

    @Override
    public int write(long handle, long address, int lengthBytes, long offset) {
        writes.incrementAndGet();
        try {
            return closing.await(writeMs, TimeUnit.MILLISECONDS) ? Errno.EIO.negated() : lengthBytes;
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return Errno.EINTR.negated();
        }
    }

    @Override
    public void fsync(long handle) {
        // No bytes are held back.
    }

    @Override
    public void release(long handle) {
        handles.remove(handle);
    }

    @Override
    public void truncate(String path, long sizeBytes) {
        // No bytes are kept.
    }

    @Override
    public void truncate(long handle, long sizeBytes) {
        // No bytes are kept.
    }

    @Override
    public void allocate(long handle, int mode, long offset, long lengthBytes) {
        // No bytes are kept.
    }

    @Override
    public void makeDirectory(String path, int mode, CallingProcess caller) throws ErrnoException {
        tree.addDirectory(path, mode & 07777, caller.uid(), caller.gid());
    }

    @Override
    public void removeDirectory(String path) throws ErrnoException {
        tree.removeDirectory(path);
    }

    @Override
    public void symlink(String target, String path, CallingProcess caller) throws ErrnoException {
        throw new ErrnoException(Errno.ENOTSUP, path);
    }

    @Override
    public void rename(String from, String to) throws ErrnoException {
        tree.rename(from, to);
    }

    @Override
    public void unlink(String path) throws ErrnoException {
        tree.removeFile(path);
    }

    @Override
    public void changeMode(String path, int mode) throws ErrnoException {
        TreeNode<Path> node = tree.find(path);
        tree.changeMode(node, mode);
    }

    @Override
    public void changeOwner(String path, int uid, int gid) throws ErrnoException {
        TreeNode<Path> node = tree.find(path);
        tree.changeOwner(node, uid, gid);
    }

    @Override
    public void changeModificationTime(String path, long epochNs) {
        // No caller uses it.
    }

    @Override
    public Capacity capacity() {
        return new Capacity(4096, 1L << 30, 1L << 30, 0);
    }

    @Override
    public void abort() {
        closing.countDown();
    }

    @Override
    public void close() throws IOException {
        closing.countDown();
        mount.close();
    }
}
