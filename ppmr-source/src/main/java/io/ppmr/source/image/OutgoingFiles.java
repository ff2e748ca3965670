package io.ppmr.source.image;

import io.ppmr.bufferpool.BufferPool;
import io.ppmr.bufferpool.ChunkState;
import io.ppmr.bufferpool.FairClaims;
import io.ppmr.fuse.Errno;
import io.ppmr.fuse.ErrnoException;
import io.ppmr.fuse.FileType;
import io.ppmr.fuse.NodeTree;
import io.ppmr.fuse.NodeTree.TreeNode;
import io.ppmr.protocol.data.DataMessage.Changed;
import io.ppmr.protocol.data.DataMessage.Created;
import io.ppmr.protocol.data.DataMessage.NameChange;
import io.ppmr.protocol.data.DataMessage.Removed;
import io.ppmr.protocol.data.DataMessage.Renamed;
import io.ppmr.protocol.data.FrameType;
import io.ppmr.protocol.data.ImageTraits;
import io.ppmr.protocol.data.NodeKind;
import io.ppmr.protocol.data.ReadingMode;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.function.Function;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The files that the checkpointers of one migration write. Each rank has a directory, {@code /MIGRATION/rank-N}, which
 * only its owner can enter: the user as which the checkpointer writes the image. This class makes every change of names
 * and sends it to the target in the same order, while holding one lock. Lookups do not take that lock.
 *
 * <p>After the first failure nothing is sent to the target. {@link ImageFailure} decides the result of further calls.
 */
public final class OutgoingFiles {
    private static final Logger LOG = LoggerFactory.getLogger(OutgoingFiles.class);

    /** The kernel reports a close some time after it. A file that is open for longer is still being written. */
    private static final long RELEASE_LIMIT_NS = TimeUnit.SECONDS.toNanos(10);

    private static final ImageTraits COMPLETE_TOGETHER = () -> ReadingMode.STREAMED;

    private final String root;
    private final NodeTree<OutgoingFile> tree;
    private final BufferPool pool;
    private final FairClaims claims;
    private final Outlet outlet;
    private final ImageTee copy;
    private final ImageTraits traits;
    private final WriterActivity activity;
    private final Map<String, Integer> ranks = new TreeMap<>();
    private final Object namesLock = new Object();
    private final ImageFailure failureState;
    private volatile OutgoingFile[] files = new OutgoingFile[0];

    /**
     * Creates files without a kept copy, which are complete together with their rank, and whose writers get EIO after a
     * failure.
     */
    public OutgoingFiles(
            String directory,
            NodeTree<OutgoingFile> tree,
            BufferPool pool,
            FairClaims claims,
            Outlet outlet,
            List<Integer> ranks,
            int uid,
            int gid)
            throws ErrnoException {
        this(
                directory,
                tree,
                pool,
                claims,
                outlet,
                ImageTee.NONE,
                new ImageFailure(false),
                COMPLETE_TOGETHER,
                new WriterActivity(),
                ranks,
                uid,
                gid);
    }

    /**
     * Creates files that may have a kept copy.
     *
     * @param copy receives the written bytes a second time
     * @param failureState decides the result of calls after a failure; used only by these files
     * @param traits determine which files are complete before their rank
     * @param activity shared by all checkpoints of the attempt
     * @param uid the owner of the ranks' directories: the user that writes the image
     * @param gid the owner's group
     */
    public OutgoingFiles(
            String directory,
            NodeTree<OutgoingFile> tree,
            BufferPool pool,
            FairClaims claims,
            Outlet outlet,
            ImageTee copy,
            ImageFailure failureState,
            ImageTraits traits,
            WriterActivity activity,
            List<Integer> ranks,
            int uid,
            int gid)
            throws ErrnoException {
        this.root = "/" + directory;
        this.tree = tree;
        this.pool = pool;
        this.claims = claims;
        this.outlet = outlet;
        this.copy = copy;
        this.failureState = failureState;
        this.traits = traits;
        this.activity = activity;
        tree.addDirectory(root, 0711, 0, 0);
        for (int rank : ranks) {
            String name = "rank-" + rank;
            this.ranks.put(name, rank);
            tree.addDirectory(root + "/" + name, 0700, uid, gid);
        }
    }

    /** Returns all files so far. A file's number is its index plus one. */
    public OutgoingFile[] snapshot() {
        return files;
    }

    /** Returns the file with this number, or null. */
    public OutgoingFile find(int id) {
        OutgoingFile[] current = files;
        return id > 0 && id <= current.length ? current[id - 1] : null;
    }

    // ---- FUSE's threads ---------------------------------------------------------------------------------------

    public OutgoingFile create(String path, int mode, int uid, int gid) throws ErrnoException {
        int rank = rankOf(path);
        return changeInOrder(
                () -> {
                    int id = files.length + 1;
                    ImageTee.FileCopy fileCopy =
                            failureState.failure() == null ? copy.newFile() : ImageTee.FileCopy.NONE;
                    OutgoingFile file =
                            new OutgoingFile(id, path, rank, pool, claims, outlet, fileCopy, failureState, activity);
                    tree.addFile(path, mode & ~FileType.MASK, uid, gid, file);
                    return register(file);
                },
                file -> new Created(file.id(), NodeKind.FILE, relative(path), mode & ~FileType.MASK, uid, gid, ""));
    }

    private OutgoingFile register(OutgoingFile file) {
        OutgoingFile[] more = Arrays.copyOf(files, file.id());
        more[file.id() - 1] = file;
        files = more;
        return file;
    }

    /** Starts the stream of a rank's own files. It has no name here, since only the migration writes it. */
    public OutgoingFile createCarried(int rank) throws ErrnoException {
        String path = root + "/rank-" + rank + "/" + NodeKind.CARRIED;
        return changeInOrder(
                () -> {
                    int id = files.length + 1;
                    return register(new OutgoingFile(
                            id, path, rank, pool, claims, outlet, ImageTee.FileCopy.NONE, failureState, activity));
                },
                file -> new Created(file.id(), NodeKind.CARRIED, relative(path), 0, 0, 0, ""));
    }

    public void makeDirectory(String path, int mode, int uid, int gid) throws ErrnoException {
        rankOf(path);
        changeInOrder(
                () -> tree.addDirectory(path, mode & ~FileType.MASK, uid, gid),
                made -> new Created(0, NodeKind.DIRECTORY, relative(path), mode & ~FileType.MASK, uid, gid, ""));
    }

    public void symlink(String target, String path, int uid, int gid) throws ErrnoException {
        rankOf(path);
        changeInOrder(
                () -> tree.addSymlink(path, target, uid, gid),
                made -> new Created(0, NodeKind.SYMLINK, relative(path), 0777, uid, gid, target));
    }

    public void rename(String from, String to) throws ErrnoException {
        int rank = rankOf(from);
        if (rank != rankOf(to)) {
            throw new ErrnoException(Errno.EXDEV, from + " cannot move to the directory of another rank");
        }
        if (traits.completionMarkerName().filter(nameIn(to)::equals).isPresent() && !failureState.discards()) {
            endRetained(rank, from, to);
        }
        changeInOrder(
                () -> {
                    TreeNode<OutgoingFile> node = tree.rename(from, to).node();
                    if (node.isFile()) {
                        node.file().rename(to);
                    }
                    return node;
                },
                node -> new Renamed(relative(from), relative(to)));
    }

    /** Reports the rank's retained files as complete, before their completion marker becomes visible. */
    private void endRetained(int rank, String renamed, String marker) throws ErrnoException {
        long deadlineNs = System.nanoTime() + RELEASE_LIMIT_NS;
        try {
            // Its writer closed it, but libfuse reports that only after the rename.
            tree.find(renamed).requireFile(renamed).endClosed();
            for (OutgoingFile file : files) {
                boolean retained = file.rank() == rank && !traits.streams(nameIn(file.name()));
                if (retained && !file.name().equals(renamed) && !file.end(deadlineNs, () -> false)) {
                    throw new ErrnoException(
                            Errno.EBUSY,
                            marker + " marks all files except the streamed ones as complete, but " + file.name()
                                    + " is still open for writing");
                }
            }
        } catch (IOException e) {
            throw new ErrnoException(Errno.EIO, marker + ": " + e.getMessage(), e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new ErrnoException(Errno.EINTR, marker + ": the wait for files to be closed was interrupted", e);
        }
    }

    private static String nameIn(String path) {
        return path.substring(path.lastIndexOf('/') + 1);
    }

    public void remove(String path, boolean directory) throws ErrnoException {
        tree.find(path);
        rankOf(path);
        changeInOrder(
                () -> directory ? tree.removeDirectory(path) : tree.removeFile(path),
                node -> new Removed(relative(path)));
    }

    /** Makes a change of a name's mode, owner or time, and sends the new values to the target. */
    public void change(String path, Runnable change) throws ErrnoException {
        rankOf(path);
        changeInOrder(
                () -> {
                    change.run();
                    return tree.find(path);
                },
                node -> new Changed(
                        relative(path), node.mode() & ~FileType.MASK, node.uid(), node.gid(), node.modifiedEpochNs()));
    }

    // ---- the migration ----------------------------------------------------------------------------------------

    /**
     * Ends a rank's image after its checkpointer reported success: its files are complete when their last handles are
     * released.
     *
     * @param calledOff queried while this waits: whether the image is no longer wanted
     * @throws IOException if a file is not released before the deadline, or the image is no longer wanted
     */
    public void endRank(int rank, long deadlineNs, BooleanSupplier calledOff) throws IOException, InterruptedException {
        for (OutgoingFile file : files) {
            if (file.rank() == rank && !file.end(deadlineNs, calledOff)) {
                throw new IOException("file " + file.name() + " is still open for writing though its checkpointer "
                        + "reported success: a process that it started may hold it");
            }
        }
        if (failureState.failure() != null) {
            throw new IOException("the image of rank " + rank + " is incomplete: " + failureState.failure());
        }
        outlet.sendValue(FrameType.END_OF_IMAGE, 0, rank);
    }

    /** Returns all present names of the images. */
    public List<ImageName> names() throws ErrnoException {
        synchronized (namesLock) {
            List<ImageName> names = new ArrayList<>();
            for (String rank : ranks.keySet()) {
                collect(root + "/" + rank, names);
            }
            return names;
        }
    }

    private void collect(String path, List<ImageName> names) throws ErrnoException {
        TreeNode<OutgoingFile> node = tree.find(path);
        String name = relative(path).substring(1);
        int uid = node.uid();
        int gid = node.gid();
        if (node.isFile()) {
            OutgoingFile file = node.file();
            names.add(new ImageName(name, ImageName.NameKind.FILE, file.copy(), file.size(), null, uid, gid));
        } else if (node.isDirectory()) {
            names.add(new ImageName(name, ImageName.NameKind.DIRECTORY, null, 0, null, uid, gid));
            for (String child : tree.list(path)) {
                collect(path + "/" + child, names);
            }
        } else {
            names.add(new ImageName(name, ImageName.NameKind.SYMLINK, null, 0, node.linkTarget(), uid, gid));
        }
    }

    /** Returns the reason of the first failure, or null. A call may have recorded it. */
    public String failure() {
        return failureState.failure();
    }

    /** Ends every wait. Later calls fail, or their bytes are discarded, as {@link ImageFailure} decides. */
    public void fail(String reason) {
        // Recorded before taking locks, because a waiting writer that holds one checks it.
        failureState.fail(reason);
        claims.fail();
        for (OutgoingFile file : files) {
            file.wakeFailed();
        }
    }

    /** After {@link #fail}: later writes fail with EIO. */
    public void refuse() {
        failureState.refuseWrites();
    }

    /** Removes all names and releases all chunks. The transport must no longer read them. */
    public void discard() throws ErrnoException {
        fail("the migration ended");
        tree.removeTree(root);
        for (int chunk = 0; chunk < pool.geometry().chunkCount(); chunk++) {
            if (pool.state(chunk) == ChunkState.READY) {
                claims.release(chunk);
            }
        }
        claims.reset();
    }

    private interface Change<T> {
        T make() throws ErrnoException;
    }

    /** Changes names, and sends the change to the target unless the images failed. */
    private <T> T changeInOrder(Change<T> change, Function<T, NameChange> message) throws ErrnoException {
        activity.begin();
        try {
            return changeInOrderCounted(change, message);
        } finally {
            activity.end();
        }
    }

    private <T> T changeInOrderCounted(Change<T> change, Function<T, NameChange> message) throws ErrnoException {
        synchronized (namesLock) {
            if (failureState.failure() != null && !failureState.discards()) {
                throw new ErrnoException(Errno.EIO, "the migration failed: " + failureState.failure());
            }
            T changed = change.make();
            if (failureState.failure() == null) {
                try {
                    outlet.sendNameChange(message.apply(changed));
                } catch (IOException e) {
                    handleUnsentChange(e);
                }
            }
            return changed;
        }
    }

    private void handleUnsentChange(IOException cause) throws ErrnoException {
        String reason = "a change of names cannot be sent to the target: " + cause.getMessage();
        if (!failureState.mayDiscard()) {
            throw new ErrnoException(Errno.EIO, reason, cause);
        }
        if (failureState.fail(reason)) {
            LOG.warn("{}: {}; the attempt failed, and further writes in it are discarded", root, reason);
        }
    }

    private String relative(String path) {
        return path.substring(root.length());
    }

    private int rankOf(String path) throws ErrnoException {
        String[] parts = path.split("/", 4);
        Integer rank = parts.length == 4 && path.startsWith(root + "/") ? ranks.get(parts[2]) : null;
        if (rank == null) {
            throw new ErrnoException(Errno.EACCES, path + " is not in a rank's directory, where images are written");
        }
        return rank;
    }
}
