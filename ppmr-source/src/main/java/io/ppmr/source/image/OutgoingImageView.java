package io.ppmr.source.image;

import io.ppmr.fuse.Errno;
import io.ppmr.fuse.ErrnoException;
import io.ppmr.fuse.FileAttributes;
import io.ppmr.fuse.FilesystemView;
import io.ppmr.fuse.HandleTable;
import io.ppmr.fuse.NodeTree;
import io.ppmr.fuse.NodeTree.TreeNode;
import io.ppmr.fuse.OpenFlags;
import io.ppmr.linux.RareLog;
import java.io.IOException;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The source's mount, which accepts the images of running migrations for writing only. After a failure {@link
 * ImageFailure} decides the result of calls, also for a file that is still open after its migration. Exists as long as
 * the service; called by FUSE's threads.
 */
public final class OutgoingImageView implements FilesystemView {
    private static final Logger LOG = LoggerFactory.getLogger(OutgoingImageView.class);
    private static final int BLOCK_BYTES = 4096;
    /**
     * The free space that statfs(2) reports: 4 PiB. Only the target knows the real value, and programs such as cp check
     * it before they write.
     */
    private static final long FREE_BLOCKS = 1L << 40;

    private static final int KEEP_SIZE = 1;

    private final NodeTree<OutgoingFile> tree = new NodeTree<>(0, 0);
    private final HandleTable<OpenImage> handles = new HandleTable<>();
    private final ConcurrentHashMap<String, OutgoingFiles> migrations = new ConcurrentHashMap<>();

    /** The job's user can call read any number of times. */
    private final RareLog refusals = new RareLog(LOG::warn);

    private record OpenImage(OutgoingFile file, boolean appends) {}

    /** Returns the names of all migrations. */
    public NodeTree<OutgoingFile> tree() {
        return tree;
    }

    /** Allows writing a migration's images. */
    public void add(String directory, OutgoingFiles files) {
        migrations.put(directory, files);
    }

    public void remove(String directory) {
        migrations.remove(directory);
    }

    @Override
    public FileAttributes attributes(String path) throws ErrnoException {
        return attributes(tree.find(path));
    }

    @Override
    public FileAttributes attributes(long handle) throws ErrnoException {
        return attributes(tree.find(handles.require(handle).file.name()));
    }

    private static FileAttributes attributes(TreeNode<OutgoingFile> node) {
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
        OutgoingFile file = tree.find(path).requireFile(path);
        if (flags.truncates()) {
            truncate(file, 0);
        }
        return openHandle(file, flags, caller);
    }

    @Override
    public long create(String path, OpenFlags flags, int mode, CallingProcess caller) throws ErrnoException {
        return openHandle(migrationOf(path).create(path, mode, caller.uid(), caller.gid()), flags, caller);
    }

    private long openHandle(OutgoingFile file, OpenFlags flags, CallingProcess caller) throws ErrnoException {
        long handle = handles.add(new OpenImage(file, flags.appends()), caller.uid());
        file.opened();
        return handle;
    }

    @Override
    public int write(long handle, long address, int lengthBytes, long offset) {
        OpenImage open = handles.get(handle);
        if (open == null) {
            return Errno.EBADF.negated();
        }
        return open.file.write(address, lengthBytes, open.appends ? open.file.size() : offset);
    }

    @Override
    public int read(long handle, long address, int lengthBytes, long offset) {
        OpenImage open = handles.get(handle);
        if (open != null) {
            open.file
                    .logContext()
                    .logging(() -> refusals.write(
                            "read",
                            "file " + open.file.name() + ": a read of " + lengthBytes + " bytes at " + offset
                                    + " is refused: the written bytes are sent to the target and not kept here"));
        } else {
            refusals.write(
                    "handle",
                    "a read of " + lengthBytes + " bytes at " + offset + " is refused: handle " + handle
                            + " does not belong to an open file");
        }
        return Errno.ENOTSUP.negated();
    }

    @Override
    public void flush(long handle) throws ErrnoException {
        try {
            handles.require(handle).file.flush();
        } catch (IOException e) {
            throw new ErrnoException(Errno.EIO, e.getMessage(), e);
        }
    }

    @Override
    public void fsync(long handle) throws ErrnoException {
        try {
            handles.require(handle).file.sync();
        } catch (IOException e) {
            throw new ErrnoException(Errno.EIO, e.getMessage(), e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new ErrnoException(Errno.EINTR, "fsync was interrupted", e);
        }
    }

    @Override
    public void release(long handle) {
        OpenImage open = handles.remove(handle);
        if (open == null) {
            return;
        }
        try {
            open.file.closed();
        } catch (IOException e) {
            open.file
                    .logContext()
                    .logging(() ->
                            LOG.warn("file {}: its last bytes cannot be sent: {}", open.file.name(), e.getMessage()));
        }
    }

    @Override
    public void truncate(String path, long sizeBytes) throws ErrnoException {
        truncate(tree.find(path).requireFile(path), sizeBytes);
    }

    @Override
    public void truncate(long handle, long sizeBytes) throws ErrnoException {
        truncate(handles.require(handle).file, sizeBytes);
    }

    private static void truncate(OutgoingFile file, long sizeBytes) throws ErrnoException {
        try {
            file.truncate(sizeBytes);
        } catch (IOException e) {
            throw new ErrnoException(Errno.EIO, e.getMessage(), e);
        }
    }

    @Override
    public void allocate(long handle, int mode, long offset, long lengthBytes) throws ErrnoException {
        OutgoingFile file = handles.require(handle).file;
        if ((mode & ~KEEP_SIZE) != 0) {
            throw new ErrnoException(
                    Errno.ENOTSUP, file.name() + ": holes cannot be punched into bytes that are being sent");
        }
        if ((mode & KEEP_SIZE) == 0 && offset + lengthBytes > file.size()) {
            truncate(file, offset + lengthBytes);
        }
    }

    @Override
    public void makeDirectory(String path, int mode, CallingProcess caller) throws ErrnoException {
        migrationOf(path).makeDirectory(path, mode, caller.uid(), caller.gid());
    }

    @Override
    public void removeDirectory(String path) throws ErrnoException {
        migrationOf(path).remove(path, true);
    }

    @Override
    public void symlink(String target, String path, CallingProcess caller) throws ErrnoException {
        migrationOf(path).symlink(target, path, caller.uid(), caller.gid());
    }

    @Override
    public void rename(String from, String to) throws ErrnoException {
        migrationOf(from).rename(from, to);
    }

    @Override
    public void unlink(String path) throws ErrnoException {
        tree.find(path);
        migrationOf(path).remove(path, false);
    }

    @Override
    public void changeMode(String path, int mode) throws ErrnoException {
        TreeNode<OutgoingFile> node = tree.find(path);
        migrationOf(path).change(path, () -> tree.changeMode(node, mode));
    }

    @Override
    public void changeOwner(String path, int uid, int gid) throws ErrnoException {
        TreeNode<OutgoingFile> node = tree.find(path);
        migrationOf(path).change(path, () -> tree.changeOwner(node, uid, gid));
    }

    @Override
    public void changeModificationTime(String path, long epochNs) throws ErrnoException {
        TreeNode<OutgoingFile> node = tree.find(path);
        migrationOf(path).change(path, () -> tree.changeModificationTime(node, epochNs));
    }

    @Override
    public void abort() {
        migrations.values().forEach(files -> files.fail("the service ends"));
    }

    @Override
    public Capacity capacity() {
        long used = 0;
        long files = 0;
        for (OutgoingFiles images : migrations.values()) {
            for (OutgoingFile file : images.snapshot()) {
                used += (file.size() + BLOCK_BYTES - 1) / BLOCK_BYTES;
                files++;
            }
        }
        return new Capacity(BLOCK_BYTES, FREE_BLOCKS + used, FREE_BLOCKS, files);
    }

    private OutgoingFiles migrationOf(String path) throws ErrnoException {
        int end = path.indexOf('/', 1);
        OutgoingFiles files = end < 0 ? null : migrations.get(path.substring(1, end));
        if (files == null) {
            throw new ErrnoException(Errno.EACCES, path + " is in no migration's directory, where images are written");
        }
        return files;
    }
}
