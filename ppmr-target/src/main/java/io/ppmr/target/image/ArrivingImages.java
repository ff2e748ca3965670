package io.ppmr.target.image;

import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.fuse.Errno;
import io.ppmr.fuse.ErrnoException;
import io.ppmr.fuse.FileAttributes;
import io.ppmr.fuse.FileType;
import io.ppmr.fuse.NodeTree;
import io.ppmr.fuse.NodeTree.TreeNode;
import io.ppmr.protocol.data.DataMessage.Changed;
import io.ppmr.protocol.data.DataMessage.Created;
import io.ppmr.protocol.data.DataMessage.Removed;
import io.ppmr.protocol.data.DataMessage.Renamed;
import io.ppmr.protocol.data.ImageTraits;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import org.agrona.collections.Int2ObjectHashMap;

/**
 * The files of one migration at the target: their names, which follow those at the source, and the openers that wait
 * for a missing file.
 *
 * <p>Each rank has a directory, {@code /MIGRATION/rank-N}, which only its owner can enter: the user as which the
 * restart runs. Names that the restart opens before they exist are expected names: a lookup succeeds at once, and an
 * open waits.
 *
 * <p>The session's agent applies the source's changes. FUSE's threads look up and open.
 */
public final class ArrivingImages {
    private static final long WAIT_SLICE_MS = 1_000;
    private static final long ANNOUNCED_INODE = Long.MAX_VALUE;

    private final String root;
    private final ImageTraits traits;
    private final NodeTree<ArrivingFile> tree;
    private final PoolGeometry geometry;
    private final FilePrefixStore prefixes;
    private final Staging staging;
    private final ImageListener listener;
    private final int uid;
    private final int gid;
    private final Int2ObjectHashMap<ArrivingFile> files = new Int2ObjectHashMap<>();
    private final Map<Integer, RankImage> ranks = new TreeMap<>();
    /** The ranks by their directories below the root, so that a lookup does not iterate over all ranks. */
    private final Map<String, RankImage> ranksByPath = new HashMap<>();

    /** Streams of the job's own files, by rank; they have no names here. */
    private final Map<Integer, ArrivingFile> carried = new ConcurrentHashMap<>();

    private final CopyOnWriteArrayList<ArrivingFile> all = new CopyOnWriteArrayList<>();
    private volatile String failure;

    /**
     * The settings of one migration's images.
     *
     * @param uid the owner of the ranks' directories: the user that reads the images
     * @param gid the owner's group
     */
    public record ImagesContext(
            String directory,
            ImageTraits traits,
            NodeTree<ArrivingFile> tree,
            PoolGeometry geometry,
            FilePrefixStore prefixes,
            int uid,
            int gid,
            List<Integer> ranks) {}

    /** @param staging the storage for bytes that the pool does not keep; closed later than this object */
    public ArrivingImages(ImagesContext setting, Staging staging, ImageListener listener) throws ErrnoException {
        root = "/" + setting.directory;
        traits = setting.traits;
        tree = setting.tree;
        geometry = setting.geometry;
        prefixes = setting.prefixes;
        uid = setting.uid;
        gid = setting.gid;
        this.staging = staging;
        this.listener = listener;
        tree.addDirectory(root, 0711, 0, 0);
        for (int rank : setting.ranks) {
            tree.addDirectory(root + rankPath(rank), 0700, uid, gid);
            RankImage image = new RankImage(
                    rank, traits::streams, traits.completionMarkerName().isPresent());
            ranks.put(rank, image);
            ranksByPath.put(rankPath(rank), image);
        }
    }

    /** Returns the directory of a rank inside its migration's. */
    public static String rankPath(int rank) {
        return "/rank-" + rank;
    }

    // ---- the session's agent ----------------------------------------------------------------------------------

    /** Returns the file with this number. */
    public ArrivingFile file(int id) throws ImageException {
        ArrivingFile file = files.get(id);
        if (file == null) {
            throw new ImageException("the source names file " + id + ", which it never created");
        }
        return file;
    }

    /** Applies a created name; returns the file if it is one. */
    public ArrivingFile apply(Created created) throws ImageException, ErrnoException {
        String path = shownPath(created.path());
        ArrivingFile file = null;
        switch (created.kind()) {
            case CARRIED -> {
                RankImage rank = rankOf(created.path());
                file = newFile(created.file(), path, rank);
                if (carried.putIfAbsent(rank.rank(), file) != null) {
                    throw new ImageException("the source sends files of rank " + rank.rank() + " twice");
                }
            }
            case DIRECTORY -> tree.addDirectory(path, created.mode(), created.uid(), created.gid());
            case SYMLINK -> tree.addSymlink(path, created.linkTarget(), created.uid(), created.gid());
            case FILE -> {
                RankImage rank = rankOf(created.path());
                file = newFile(created.file(), path, rank);
                tree.addFile(path, created.mode(), created.uid(), created.gid(), file);
                rank.changed();
            }
        }
        return file;
    }

    private ArrivingFile newFile(int id, String path, RankImage rank) throws ImageException {
        ArrivingFile file = new ArrivingFile(id, path, rank, geometry, prefixes.claim(path), staging, listener);
        if (files.put(id, file) != null) {
            throw new ImageException("the source creates file " + id + " twice");
        }
        all.add(file);
        return file;
    }

    /** Returns the stream of a rank's own files, if the source started it. Any thread. */
    public Optional<ArrivingFile> carried(int rank) {
        return Optional.ofNullable(carried.get(rank));
    }

    public void apply(Renamed renamed) throws ImageException, ErrnoException {
        String from = shownPath(renamed.from());
        String to = shownPath(renamed.to());
        if (from.equals(to)) {
            return;
        }
        NodeTree.RenameResult<ArrivingFile> result = tree.rename(from, to);
        if (result.node().isFile()) {
            result.node().file().rename(to);
        }
        if (result.replaced() != null && result.replaced().isFile()) {
            result.replaced().file().remove();
        }
        rankOf(renamed.to()).changed();
    }

    public void apply(Removed removed) throws ImageException, ErrnoException {
        String path = shownPath(removed.path());
        TreeNode<ArrivingFile> node = tree.find(path);
        if (node.isDirectory()) {
            tree.removeDirectory(path);
        } else {
            tree.removeFile(path);
            if (node.isFile()) {
                node.file().remove();
            }
        }
    }

    public void apply(Changed change) throws ErrnoException, ImageException {
        TreeNode<ArrivingFile> node = tree.find(shownPath(change.path()));
        tree.changeMode(node, change.mode());
        tree.changeOwner(node, change.uid(), change.gid());
        tree.changeModificationTime(node, change.modifiedEpochNs());
    }

    /** Marks all files of a rank as complete. */
    public void endRank(int rank) throws ImageException {
        RankImage image = ranks.get(rank);
        if (image == null) {
            throw new ImageException("the source ends rank " + rank + ", which is not in the plan");
        }
        image.end();
    }

    /** Returns the images of all ranks. Any thread. */
    public Collection<RankImage> ranks() {
        return Collections.unmodifiableCollection(ranks.values());
    }

    /** Returns true if there are ranks and the image of each is complete. */
    public boolean isComplete() {
        return !ranks.isEmpty() && ranks.values().stream().allMatch(RankImage::hasEnded);
    }

    /** Ends every wait with EIO, permanently. */
    public void fail(String reason) {
        failure = reason;
        for (ArrivingFile file : all) {
            file.fail(reason);
        }
        ranks.values().forEach(RankImage::changed);
    }

    /** Fails all images when the service ends; not called by the agent. */
    void abort() {
        fail("the service ends");
    }

    /** Removes every name and frees every slot. No chunk may arrive afterwards. */
    public void discard() throws ErrnoException {
        fail("the migration ended");
        // Done before any call that can fail, because a later close of a file must find no bytes in it.
        for (ArrivingFile file : all) {
            file.discard();
        }
        tree.removeTree(root);
    }

    /** Returns true if a reader waits for a byte or a name. */
    public boolean hasWaitingReader() {
        return ranks.values().stream().anyMatch(RankImage::hasWaitingReader);
    }

    // ---- FUSE's threads ---------------------------------------------------------------------------------------

    /** Returns the attributes of an expected name that did not arrive; null if the name is not expected. */
    FileAttributes expected(String path) {
        Announced name = announcedName(path);
        return name == null ? null : new FileAttributes(ANNOUNCED_INODE, FileType.REGULAR | 0400, 1, uid, gid, 0, 0);
    }

    /** Waits until a file can be opened: it arrived, and is complete if its restart requires that. */
    TreeNode<ArrivingFile> awaitFile(String path) throws ErrnoException {
        Announced name = announcedName(path);
        if (name == null) {
            return tree.find(path);
        }
        boolean completion = traits.completionNames(name.rank.rank()).contains(name.relative);
        synchronized (name.rank) {
            while (true) {
                if (failure != null) {
                    throw new ErrnoException(Errno.EIO, path + ": the migration failed: " + failure);
                }
                if (name.rank.hasEnded() || (!completion && exists(path))) {
                    return tree.find(path);
                }
                name.rank.readerBlocked();
                try {
                    name.rank.wait(WAIT_SLICE_MS);
                } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                    throw new ErrnoException(Errno.EINTR, path + ": the waiting thread was interrupted", e);
                } finally {
                    name.rank.readerResumed();
                }
            }
        }
    }

    private boolean exists(String path) {
        try {
            return tree.find(path).isFile();
        } catch (ErrnoException e) {
            return false;
        }
    }

    private record Announced(RankImage rank, String relative) {}

    private Announced announcedName(String path) {
        RankImage rank = path.startsWith(root) ? rankIn(path.substring(root.length())) : null;
        if (rank == null) {
            return null;
        }
        String relative = path.substring(root.length() + rankPath(rank.rank()).length() + 1);
        return traits.expectedNames(rank.rank()).contains(relative) ? new Announced(rank, relative) : null;
    }

    /**
     * Maps a name of the source to the name shown here: below this migration's root, and a temporary name to its final
     * one.
     */
    private String shownPath(String path) throws ImageException {
        rankOf(path);
        int slash = path.lastIndexOf('/');
        String name = path.substring(slash + 1);
        return root + path.substring(0, slash + 1) + traits.finalNameOf(name).orElse(name);
    }

    private RankImage rankOf(String path) throws ImageException {
        RankImage rank = path.contains("/../") ? null : rankIn(path);
        if (rank == null) {
            throw new ImageException("the source names " + path + ", which is in no rank's directory");
        }
        return rank;
    }

    /** Returns the rank whose directory contains a path below this migration's root; null if there is none. */
    private RankImage rankIn(String path) {
        int slash = path.indexOf('/', 1);
        return slash < 0 ? null : ranksByPath.get(path.substring(0, slash));
    }
}
