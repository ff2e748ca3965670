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
 * The files that the checkpointers of one migration write: each rank into a directory of its own, {@code
 * /MIGRATION/rank-N}, which only its owner can enter: the user that the checkpointer writes the image as. Every change
 * of names is made here and told to the target in the same order, under one lock; looking a name up does not take it.
 *
 * <p>After the first failure nothing more is told to the target, and nothing is sent: the {@link ImageFailure} says
 * what becomes of the calls that still come.
 */
public final class OutgoingFiles {
    private static final Logger LOG = LoggerFactory.getLogger(OutgoingFiles.class);

    /** The kernel tells of a close some time after it; a file that is open for longer is still written. */
    private static final long RELEASE_LIMIT_NS = TimeUnit.SECONDS.toNanos(10);

    private static final ImageTraits WHOLE_TOGETHER = () -> ReadingMode.STREAMED;

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

    /** Files of which no copy is wanted, that are whole when a rank is, and whose writers get EIO after a failure. */
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
                WHOLE_TOGETHER,
                new WriterActivity(),
                ranks,
                uid,
                gid);
    }

    /**
     * Files of which a copy may be wanted.
     *
     * @param copy takes what is written a second time
     * @param failureState what becomes of calls after a failure; no other files have it
     * @param traits say which files are whole before their rank is
     * @param activity of all checkpoints of the attempt
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

    /** All files so far; a file's number is its place plus one. */
    public OutgoingFile[] snapshot() {
        return files;
    }

    /** The file of a number, or null. */
    public OutgoingFile find(int id) {
        OutgoingFile[] current = files;
        return id > 0 && id <= current.length ? current[id - 1] : null;
    }

    // ---- FUSE's threads ---------------------------------------------------------------------------------------

    public OutgoingFile create(String path, int mode, int uid, int gid) throws ErrnoException {
        int rank = rankOf(path);
        return inOrder(
                () -> {
                    int id = files.length + 1;
                    ImageTee.FileCopy second = failureState.failure() == null ? copy.newFile() : ImageTee.FileCopy.NONE;
                    OutgoingFile file =
                            new OutgoingFile(id, path, rank, pool, claims, outlet, second, failureState, activity);
                    tree.addFile(path, mode & ~FileType.MASK, uid, gid, file);
                    return added(file);
                },
                file -> new Created(file.id(), NodeKind.FILE, relative(path), mode & ~FileType.MASK, uid, gid, ""));
    }

    private OutgoingFile added(OutgoingFile file) {
        OutgoingFile[] more = Arrays.copyOf(files, file.id());
        more[file.id() - 1] = file;
        files = more;
        return file;
    }

    /** Begins the stream of a rank's own files. It has no name here: only the migration writes it. */
    public OutgoingFile carried(int rank) throws ErrnoException {
        String path = root + "/rank-" + rank + "/" + NodeKind.CARRIED;
        return inOrder(
                () -> {
                    int id = files.length + 1;
                    return added(new OutgoingFile(
                            id, path, rank, pool, claims, outlet, ImageTee.FileCopy.NONE, failureState, activity));
                },
                file -> new Created(file.id(), NodeKind.CARRIED, relative(path), 0, 0, 0, ""));
    }

    public void makeDirectory(String path, int mode, int uid, int gid) throws ErrnoException {
        rankOf(path);
        inOrder(
                () -> tree.addDirectory(path, mode & ~FileType.MASK, uid, gid),
                made -> new Created(0, NodeKind.DIRECTORY, relative(path), mode & ~FileType.MASK, uid, gid, ""));
    }

    public void symlink(String target, String path, int uid, int gid) throws ErrnoException {
        rankOf(path);
        inOrder(
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
        inOrder(
                () -> {
                    TreeNode<OutgoingFile> node = tree.rename(from, to).node();
                    if (node.isFile()) {
                        node.file().rename(to);
                    }
                    return node;
                },
                node -> new Renamed(relative(from), relative(to)));
    }

    /** Says that the files of a rank that are not streamed are whole, before the mark of it can be seen. */
    private void endRetained(int rank, String renamed, String mark) throws ErrnoException {
        long deadlineNs = System.nanoTime() + RELEASE_LIMIT_NS;
        try {
            // Its writer has closed it, and libfuse tells of that only when the rename is over.
            tree.find(renamed).requireFile(renamed).endClosed();
            for (OutgoingFile file : files) {
                boolean retained = file.rank() == rank && !traits.streams(nameIn(file.name()));
                if (retained && !file.name().equals(renamed) && !file.end(deadlineNs, () -> false)) {
                    throw new ErrnoException(
                            Errno.EBUSY,
                            mark + " says that all files but the streamed ones are whole, but " + file.name()
                                    + " is still open for writing");
                }
            }
        } catch (IOException e) {
            throw new ErrnoException(Errno.EIO, mark + ": " + e.getMessage(), e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new ErrnoException(Errno.EINTR, mark + ": the wait for files to be closed was interrupted", e);
        }
    }

    private static String nameIn(String path) {
        return path.substring(path.lastIndexOf('/') + 1);
    }

    public void remove(String path, boolean directory) throws ErrnoException {
        tree.find(path);
        rankOf(path);
        inOrder(
                () -> directory ? tree.removeDirectory(path) : tree.removeFile(path),
                node -> new Removed(relative(path)));
    }

    /** Tells the target what a name's mode, owner and time are now, after {@code change} has been made. */
    public void change(String path, Runnable change) throws ErrnoException {
        rankOf(path);
        inOrder(
                () -> {
                    change.run();
                    return tree.find(path);
                },
                node -> new Changed(
                        relative(path), node.mode() & ~FileType.MASK, node.uid(), node.gid(), node.modifiedEpochNs()));
    }

    // ---- the migration ----------------------------------------------------------------------------------------

    /**
     * A rank's checkpointer has reported success: its files are whole as soon as their last handles are released.
     *
     * @param calledOff tells, while this waits, whether the image is no longer wanted
     * @throws IOException if one is not released before the deadline, or the image is no longer wanted
     */
    public void endRank(int rank, long deadlineNs, BooleanSupplier calledOff) throws IOException, InterruptedException {
        for (OutgoingFile file : files) {
            if (file.rank() == rank && !file.end(deadlineNs, calledOff)) {
                throw new IOException("file " + file.name() + " is still open for writing though its checkpointer "
                        + "reported success: a process that it started may hold it");
            }
        }
        if (failureState.failure() != null) {
            throw new IOException("the image of rank " + rank + " is not whole: " + failureState.failure());
        }
        outlet.sendValue(FrameType.END_OF_IMAGE, 0, rank);
    }

    /** Every name that the images have now. */
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

    /** Returns why the images are no longer wanted, or null while they are; a call may have found out by itself. */
    public String failure() {
        return failureState.failure();
    }

    /** Ends every wait; calls fail from then on, or what they write is thrown away, as {@link ImageFailure} decides. */
    public void fail(String reason) {
        // Before the locks: a writer that holds one while it waits looks at this.
        failureState.fail(reason);
        claims.fail();
        for (OutgoingFile file : files) {
            file.wakeFailed();
        }
    }

    /** After {@link #fail}: what is still written is no longer taken, but answered with EIO. */
    public void refuse() {
        failureState.refuseWrites();
    }

    /** Removes every name and takes back every chunk; the transport must no longer read them. */
    public void discard() throws ErrnoException {
        fail("the migration is over");
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

    /** Changes names, and tells the target as long as the images are wanted. */
    private <T> T inOrder(Change<T> change, Function<T, NameChange> told) throws ErrnoException {
        activity.begin();
        try {
            return inOrderAlone(change, told);
        } finally {
            activity.end();
        }
    }

    private <T> T inOrderAlone(Change<T> change, Function<T, NameChange> told) throws ErrnoException {
        synchronized (namesLock) {
            if (failureState.failure() != null && !failureState.discards()) {
                throw new ErrnoException(Errno.EIO, "the migration has failed: " + failureState.failure());
            }
            T changed = change.make();
            if (failureState.failure() == null) {
                try {
                    outlet.sendNameChange(told.apply(changed));
                } catch (IOException e) {
                    untold(e);
                }
            }
            return changed;
        }
    }

    private void untold(IOException cause) throws ErrnoException {
        String reason = "the target cannot be told of a name: " + cause.getMessage();
        if (!failureState.mayDiscard()) {
            throw new ErrnoException(Errno.EIO, reason, cause);
        }
        if (failureState.fail(reason)) {
            LOG.warn("{}: {}; the attempt has failed, and what is still written in it is thrown away", root, reason);
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
