package io.ppmr.target.image;

import io.ppmr.fuse.Errno;
import io.ppmr.fuse.ErrnoException;
import io.ppmr.fuse.FileAttributes;
import io.ppmr.fuse.FilesystemView;
import io.ppmr.fuse.HandleTable;
import io.ppmr.fuse.NodeTree;
import io.ppmr.fuse.NodeTree.TreeNode;
import io.ppmr.fuse.OpenFlags;
import java.io.IOException;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;

/**
 * The target's mount, which shows the images of running migrations read-only. Exists as long as the service; called by
 * FUSE's threads.
 */
public final class ArrivingImageView implements FilesystemView {
    private static final int PUNCH_HOLE = 2;
    private static final int BLOCK_BYTES = 4096;

    private final NodeTree<ArrivingFile> tree = new NodeTree<>(0, 0);
    private final HandleTable<ArrivingFile> handles = new HandleTable<>();
    private final ConcurrentHashMap<String, ArrivingImages> migrations = new ConcurrentHashMap<>();

    private final Supplier<StorageUse> storage;

    /**
     * The storage of arriving bytes.
     *
     * @param totalBytes the size of the pools and of staging, limited by the disk
     * @param usedBytes the part that is in use
     */
    public record StorageUse(long totalBytes, long usedBytes) {}

    /** Creates a view that reports no storage. */
    public ArrivingImageView() {
        this(() -> new StorageUse(0, 0));
    }

    /** Creates a view whose statfs(2) reports this storage. FUSE's threads call the supplier. */
    public ArrivingImageView(Supplier<StorageUse> storage) {
        this.storage = storage;
    }

    /** Returns the names of all migrations. */
    public NodeTree<ArrivingFile> tree() {
        return tree;
    }

    /** Adds a migration, whose expected names can be looked up from then on. */
    public void add(String directory, ArrivingImages images) {
        migrations.put(directory, images);
    }

    /** Removes the names of a migration that could not start. */
    public void removeTree(String directory) throws IOException {
        try {
            tree.removeTree("/" + directory);
        } catch (ErrnoException e) {
            throw new IOException(e.getMessage(), e);
        }
    }

    public void remove(String directory) {
        migrations.remove(directory);
    }

    @Override
    public FileAttributes attributes(String path) throws ErrnoException {
        try {
            return attributes(tree.find(path));
        } catch (ErrnoException e) {
            ArrivingImages images = migrationOf(path);
            FileAttributes expected = images == null ? null : images.expected(path);
            if (expected == null) {
                throw e;
            }
            return expected;
        }
    }

    @Override
    public FileAttributes attributes(long handle) throws ErrnoException {
        ArrivingFile file = handles.require(handle);
        return attributes(tree.find(file.name()));
    }

    private static FileAttributes attributes(TreeNode<ArrivingFile> node) {
        return node.attributes(node.isFile() ? node.file().size() : 0);
    }

    @Override
    public List<String> list(String path) throws ErrnoException {
        return tree.list(path);
    }

    @Override
    public String readLink(String path) throws ErrnoException {
        return tree.readLink(path);
    }

    @Override
    public long open(String path, OpenFlags flags, CallingProcess caller) throws ErrnoException {
        ArrivingImages images = migrationOf(path);
        TreeNode<ArrivingFile> node = images == null ? tree.find(path) : images.awaitFile(path);
        ArrivingFile file = node.requireFile(path);
        // The kernel allows holes only through descriptors that are open for writing. So only streamed files refuse
        // such an open.
        if (flags.writes() && file.streamed()) {
            throw readOnly(path);
        }
        long handle = handles.add(file, caller.uid());
        if (!file.opened()) {
            handles.remove(handle);
            throw new ErrnoException(Errno.ENOENT, path + " was removed while it was opened");
        }
        return handle;
    }

    @Override
    public int read(long handle, long address, int lengthBytes, long offset) {
        ArrivingFile file = handles.get(handle);
        return file == null ? Errno.EBADF.negated() : file.read(address, lengthBytes, offset);
    }

    @Override
    public void fsync(long handle) {
        // Nothing was written, so there is nothing to sync.
    }

    @Override
    public void release(long handle) {
        ArrivingFile file = handles.remove(handle);
        if (file != null) {
            file.closed();
        }
    }

    @Override
    public void allocate(long handle, int mode, long offset, long lengthBytes) throws ErrnoException {
        ArrivingFile file = handles.require(handle);
        if ((mode & PUNCH_HOLE) == 0 || file.streamed()) {
            throw readOnly(file.name());
        }
        try {
            file.punchHole(offset, lengthBytes);
        } catch (ImageException e) {
            throw new ErrnoException(Errno.ENOSPC, file.name() + ": " + e.getMessage(), e);
        }
    }

    @Override
    public void abort() {
        migrations.values().forEach(ArrivingImages::abort);
    }

    @Override
    public Capacity capacity() {
        StorageUse now = storage.get();
        long blocks = now.totalBytes() / BLOCK_BYTES;
        long used = (now.usedBytes() + BLOCK_BYTES - 1) / BLOCK_BYTES;
        return new Capacity(
                BLOCK_BYTES, blocks, Math.max(0, blocks - used), handles.all().size());
    }

    @Override
    public int write(long handle, long address, int lengthBytes, long offset) {
        return Errno.EROFS.negated();
    }

    @Override
    public void truncate(long handle, long sizeBytes) throws ErrnoException {
        throw readOnly(handles.require(handle).name());
    }

    private ArrivingImages migrationOf(String path) {
        int end = path.indexOf('/', 1);
        return end < 0 ? null : migrations.get(path.substring(1, end));
    }

    private static ErrnoException readOnly(String path) {
        return new ErrnoException(Errno.EROFS, path + ": images at the target are read-only");
    }
}
