package io.ppmr.fuse;

import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.ArrayDeque;
import java.util.List;
import java.util.TreeMap;

/**
 * The names of a filesystem that lives in memory: both services keep theirs in one. Cold path; one lock guards the
 * whole tree, and nothing waits under it.
 *
 * <p>Users make names in it, and the heap is small. So each directory of the root, which is a migration's, has a budget
 * for what is in it, all have one together, and beyond it there is no space (ENOSPC). A file counts until its migration
 * is over, since more than its name stays until then.
 *
 * @param <F> what stands behind a regular file
 */
public final class NodeTree<F> {
    private static final int MAX_NAME_BYTES = 255;
    private static final int MAX_PATH_BYTES = 4096;
    private static final int NANOS = 1_000_000_000;
    /** The bytes of the heap that a name takes, about; a file with what stands behind it. */
    private static final int NAME_BYTES = 256;

    private static final int FILE_BYTES = 1536;
    private static final int CHARACTER_BYTES = 2;
    static final long MIGRATION_BYTES = 12L << 20;
    static final long ALL_BYTES = 3 * MIGRATION_BYTES;

    /**
     * One name: a regular file, a directory or a symbolic link. Guarded by its tree.
     *
     * @param <F> what stands behind a regular file
     */
    public static final class TreeNode<F> {
        private final TreeMap<String, TreeNode<F>> children;
        private final long inode;
        private final int type;
        private final F file;
        private final String linkTarget;
        private int permissions;
        private int uid;
        private int gid;
        private long modifiedEpochNs;
        /** Of a directory of the root: what all in it takes. */
        private long takenBytes;

        private TreeNode(long inode, int mode, int uid, int gid, long modifiedEpochNs, F file, String linkTarget) {
            this.inode = inode;
            this.type = mode & FileType.MASK;
            this.permissions = mode & ~FileType.MASK;
            this.uid = uid;
            this.gid = gid;
            this.modifiedEpochNs = modifiedEpochNs;
            this.file = file;
            this.linkTarget = linkTarget;
            this.children = type == FileType.DIRECTORY ? new TreeMap<>() : null;
        }

        public boolean isDirectory() {
            return type == FileType.DIRECTORY;
        }

        public boolean isFile() {
            return type == FileType.REGULAR;
        }

        /** Returns what stands behind a regular file; null for others. */
        public F file() {
            return file;
        }

        /** Returns what stands behind a regular file; fails with EISDIR for others. */
        public F requireFile(String path) throws ErrnoException {
            if (!isFile()) {
                throw new ErrnoException(Errno.EISDIR, path + " is no file");
            }
            return file;
        }

        /** The text of a symbolic link; null for others. */
        public String linkTarget() {
            return linkTarget;
        }

        public int mode() {
            return type | permissions;
        }

        public int uid() {
            return uid;
        }

        public int gid() {
            return gid;
        }

        public long modifiedEpochNs() {
            return modifiedEpochNs;
        }

        /** Returns what stat(2) answers, with the size that the caller knows. */
        public FileAttributes attributes(long sizeBytes) {
            int links = isDirectory() ? 2 : 1;
            return new FileAttributes(inode, mode(), links, uid, gid, sizeBytes, modifiedEpochNs);
        }
    }

    private final TreeNode<F> root;
    private long lastInode = 1;
    private long takenBytes;

    /** An empty tree whose root belongs to {@code uid} and is open to all for looking. */
    public NodeTree(int uid, int gid) {
        root = new TreeNode<>(1, FileType.DIRECTORY | 0755, uid, gid, nowEpochNs(), null, null);
    }

    /** The result of a change of names: the node concerned, and the node that it replaced or null. */
    public record RenameResult<F>(TreeNode<F> node, TreeNode<F> replaced) {}

    /** The node at a path. */
    public synchronized TreeNode<F> find(String path) throws ErrnoException {
        TreeNode<F> node = root;
        int start = 0;
        while (start < path.length()) {
            int slash = path.indexOf('/', start);
            int end = slash < 0 ? path.length() : slash;
            if (end > start) {
                node = child(node, path.substring(start, end), path);
            }
            start = end + 1;
        }
        return node;
    }

    /** Adds a regular file. */
    public synchronized TreeNode<F> addFile(String path, int permissions, int uid, int gid, F file)
            throws ErrnoException {
        return add(path, FileType.REGULAR | permissions, uid, gid, file, null);
    }

    /** Adds a directory. */
    public synchronized TreeNode<F> addDirectory(String path, int permissions, int uid, int gid) throws ErrnoException {
        return add(path, FileType.DIRECTORY | permissions, uid, gid, null, null);
    }

    /** Adds a symbolic link. */
    public synchronized TreeNode<F> addSymlink(String path, String target, int uid, int gid) throws ErrnoException {
        return add(path, FileType.SYMLINK | 0777, uid, gid, null, target);
    }

    /** Takes a file or a link out. */
    public synchronized TreeNode<F> removeFile(String path) throws ErrnoException {
        TreeNode<F> node = find(path);
        if (node.isDirectory()) {
            throw new ErrnoException(Errno.EISDIR, path + " is a directory");
        }
        parent(path).children.remove(lastName(path));
        give(path, node);
        return node;
    }

    /** Takes an empty directory out. */
    public synchronized TreeNode<F> removeDirectory(String path) throws ErrnoException {
        TreeNode<F> node = find(path);
        if (!node.isDirectory()) {
            throw new ErrnoException(Errno.ENOTDIR, path + " is not a directory");
        }
        if (node == root) {
            throw new ErrnoException(Errno.EBUSY, "the root stays");
        }
        if (!node.children.isEmpty()) {
            throw new ErrnoException(Errno.ENOTEMPTY, path + " is not empty");
        }
        parent(path).children.remove(lastName(path));
        give(path, node);
        return node;
    }

    /** Takes a directory out with all that is in it; nothing happens where there is none. */
    public synchronized void removeTree(String path) throws ErrnoException {
        TreeNode<F> parent = parent(path);
        TreeNode<F> removed = parent.children.remove(lastName(path));
        if (removed != null && parent == root) {
            takenBytes -= removed.takenBytes;
        }
    }

    /** Gives a node another name, in place of what had it, by the rules of rename(2). */
    public synchronized RenameResult<F> rename(String from, String to) throws ErrnoException {
        TreeNode<F> node = find(from);
        TreeNode<F> newParent = parent(to);
        TreeNode<F> replaced = newParent.children.get(lastName(to));
        if (node == root || to.startsWith(from + "/")) {
            throw new ErrnoException(Errno.EINVAL, from + " cannot become " + to);
        }
        if (replaced == node) {
            return new RenameResult<>(node, null);
        }
        if (replaced != null) {
            requireReplaceable(node, replaced, to);
        }
        if (node.isDirectory()) {
            requirePathBytes(to, bytes(to) + deepest(node));
        }
        String name = checkedName(to);
        take(to, (long) CHARACTER_BYTES * (node.isFile() ? to.length() : name.length()));
        if (replaced != null) {
            give(to, replaced);
        }
        parent(from).children.remove(lastName(from));
        newParent.children.put(name, node);
        return new RenameResult<>(node, replaced);
    }

    /** The names in a directory. */
    public synchronized List<String> list(String path) throws ErrnoException {
        TreeNode<F> node = find(path);
        if (!node.isDirectory()) {
            throw new ErrnoException(Errno.ENOTDIR, path + " is not a directory");
        }
        return List.copyOf(node.children.keySet());
    }

    /** The text of a symbolic link. */
    public String readLink(String path) throws ErrnoException {
        String target = find(path).linkTarget();
        if (target == null) {
            throw new ErrnoException(Errno.EINVAL, path + " is no symbolic link");
        }
        return target;
    }

    public synchronized void changeMode(TreeNode<F> node, int permissions) {
        node.permissions = permissions & ~FileType.MASK;
    }

    /** {@code uid} or {@code gid} of -1 leaves that one as it is. */
    public synchronized void changeOwner(TreeNode<F> node, int uid, int gid) {
        node.uid = uid == -1 ? node.uid : uid;
        node.gid = gid == -1 ? node.gid : gid;
    }

    public synchronized void changeModificationTime(TreeNode<F> node, long epochNs) {
        node.modifiedEpochNs = epochNs;
    }

    private TreeNode<F> add(String path, int mode, int uid, int gid, F file, String linkTarget) throws ErrnoException {
        TreeNode<F> parent = parent(path);
        String name = checkedName(path);
        if (parent.children.containsKey(name)) {
            throw new ErrnoException(Errno.EEXIST, path + " exists");
        }
        TreeNode<F> node = new TreeNode<>(++lastInode, mode, uid, gid, nowEpochNs(), file, linkTarget);
        take(path, bytesOf(path, node));
        parent.children.put(name, node);
        return node;
    }

    private static long bytesOf(String path, TreeNode<?> node) {
        if (node.isFile()) {
            return FILE_BYTES + (long) CHARACTER_BYTES * path.length();
        }
        int target = node.linkTarget == null ? 0 : node.linkTarget.length();
        return NAME_BYTES + (long) CHARACTER_BYTES * (lastName(path).length() + target);
    }

    /** The directory of the root in which a path is; null for those directories themselves. */
    private TreeNode<F> migrationOf(String path) {
        int end = path.indexOf('/', 1);
        return end < 0 ? null : root.children.get(path.substring(1, end));
    }

    private void take(String path, long bytes) throws ErrnoException {
        TreeNode<F> migration = migrationOf(path);
        if (migration == null) {
            return;
        }
        if (migration.takenBytes + bytes > MIGRATION_BYTES || takenBytes + bytes > ALL_BYTES) {
            throw new ErrnoException(
                    Errno.ENOSPC,
                    path + ": there is no room for further names: an image has room for about "
                            + MIGRATION_BYTES / FILE_BYTES + " files, all images together for three times as many");
        }
        migration.takenBytes += bytes;
        takenBytes += bytes;
    }

    /** Nothing comes back of a file: what stands behind it is kept, and may be open. */
    private void give(String path, TreeNode<F> removed) {
        TreeNode<F> migration = migrationOf(path);
        if (migration != null && !removed.isFile()) {
            long bytes = bytesOf(path, removed);
            migration.takenBytes -= bytes;
            takenBytes -= bytes;
        } else if (migration == null) {
            takenBytes -= removed.takenBytes;
        }
    }

    /**
     * The length of the longest path below a directory. Directories may lie in each other two thousand deep, and the
     * stacks of this service's threads are small: so it does not call itself.
     */
    private static int deepest(TreeNode<?> directory) {
        record Below(TreeNode<?> directory, int pathBytes) {}
        ArrayDeque<Below> open = new ArrayDeque<>();
        open.add(new Below(directory, 0));
        int longest = 0;
        while (!open.isEmpty()) {
            Below at = open.remove();
            for (var child : at.directory.children.entrySet()) {
                int pathBytes = at.pathBytes + 1 + bytes(child.getKey());
                longest = Math.max(longest, pathBytes);
                if (child.getValue().isDirectory()) {
                    open.add(new Below(child.getValue(), pathBytes));
                }
            }
        }
        return longest;
    }

    private static int bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8).length;
    }

    private static void requirePathBytes(String path, int bytes) throws ErrnoException {
        if (bytes > MAX_PATH_BYTES) {
            throw new ErrnoException(
                    Errno.ENAMETOOLONG, path + ": paths are not longer than " + MAX_PATH_BYTES + " bytes here");
        }
    }

    private void requireReplaceable(TreeNode<F> node, TreeNode<F> replaced, String to) throws ErrnoException {
        if (replaced.isDirectory() && !node.isDirectory()) {
            throw new ErrnoException(Errno.EISDIR, to + " is a directory");
        }
        if (!replaced.isDirectory() && node.isDirectory()) {
            throw new ErrnoException(Errno.ENOTDIR, to + " is not a directory");
        }
        if (replaced.isDirectory() && !replaced.children.isEmpty()) {
            throw new ErrnoException(Errno.ENOTEMPTY, to + " is not empty");
        }
    }

    private TreeNode<F> parent(String path) throws ErrnoException {
        int slash = path.lastIndexOf('/');
        TreeNode<F> parent = find(path.substring(0, Math.max(slash, 0)));
        if (!parent.isDirectory()) {
            throw new ErrnoException(Errno.ENOTDIR, path + ": its parent is not a directory");
        }
        return parent;
    }

    private TreeNode<F> child(TreeNode<F> node, String name, String path) throws ErrnoException {
        if (!node.isDirectory()) {
            throw new ErrnoException(Errno.ENOTDIR, path + ": a part of it is not a directory");
        }
        TreeNode<F> child = node.children.get(name);
        if (child == null) {
            throw new ErrnoException(Errno.ENOENT, path + " does not exist");
        }
        return child;
    }

    private static String lastName(String path) {
        return path.substring(path.lastIndexOf('/') + 1);
    }

    private static String checkedName(String path) throws ErrnoException {
        String name = lastName(path);
        if (bytes(name) > MAX_NAME_BYTES) {
            throw new ErrnoException(Errno.ENAMETOOLONG, name + " is longer than " + MAX_NAME_BYTES + " bytes");
        }
        requirePathBytes(path, bytes(path));
        return name;
    }

    private static long nowEpochNs() {
        Instant now = Instant.now();
        return now.getEpochSecond() * NANOS + now.getNano();
    }
}
