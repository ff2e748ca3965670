package io.ppmr.fuse;

import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.ArrayDeque;
import java.util.List;
import java.util.TreeMap;

/**
 * The names of a filesystem in memory. Both services use one. Not a hot path: one lock guards the whole tree, and
 * nothing waits while holding it.
 *
 * <p>Users create names in it, and the heap is small. So each directory of the root, which belongs to a migration, has
 * a budget, and all have one together. Beyond it calls fail with ENOSPC. A file counts until its migration ended,
 * because its contents are kept until then.
 *
 * @param <F> the contents of a regular file
 */
public final class NodeTree<F> {
    private static final int MAX_NAME_BYTES = 255;
    private static final int MAX_PATH_BYTES = 4096;
    private static final int NANOS = 1_000_000_000;
    /** Approximate heap of a name, and of a file with its contents. */
    private static final int NAME_BYTES = 256;

    private static final int FILE_BYTES = 1536;
    private static final int CHARACTER_BYTES = 2;
    static final long MIGRATION_BYTES = 12L << 20;
    static final long ALL_BYTES = 3 * MIGRATION_BYTES;

    /**
     * One name: a regular file, a directory or a symbolic link. Guarded by its tree.
     *
     * @param <F> the contents of a regular file
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
        /** For a directory of the root: the bytes of all its descendants. */
        private long usedBytes;

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

        /** Returns the contents of a regular file; null for others. */
        public F file() {
            return file;
        }

        /** Returns the contents of a regular file; throws EISDIR for others. */
        public F requireFile(String path) throws ErrnoException {
            if (!isFile()) {
                throw new ErrnoException(Errno.EISDIR, path + " is not a regular file");
            }
            return file;
        }

        /** Returns the text of a symbolic link; null for others. */
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

        /** Returns the result of stat(2), with the given size. */
        public FileAttributes attributes(long sizeBytes) {
            int links = isDirectory() ? 2 : 1;
            return new FileAttributes(inode, mode(), links, uid, gid, sizeBytes, modifiedEpochNs);
        }
    }

    private final TreeNode<F> root;
    private long lastInode = 1;
    private long usedBytes;

    /** Creates an empty tree whose root belongs to {@code uid} and is readable for all users. */
    public NodeTree(int uid, int gid) {
        root = new TreeNode<>(1, FileType.DIRECTORY | 0755, uid, gid, nowEpochNs(), null, null);
    }

    /** The result of a change of names: the renamed node, and the node that it replaced or null. */
    public record RenameResult<F>(TreeNode<F> node, TreeNode<F> replaced) {}

    /** Returns the node at a path. */
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

    /** Removes a file or a link. */
    public synchronized TreeNode<F> removeFile(String path) throws ErrnoException {
        TreeNode<F> node = find(path);
        if (node.isDirectory()) {
            throw new ErrnoException(Errno.EISDIR, path + " is a directory");
        }
        parent(path).children.remove(lastName(path));
        release(path, node);
        return node;
    }

    /** Removes an empty directory. */
    public synchronized TreeNode<F> removeDirectory(String path) throws ErrnoException {
        TreeNode<F> node = find(path);
        if (!node.isDirectory()) {
            throw new ErrnoException(Errno.ENOTDIR, path + " is not a directory");
        }
        if (node == root) {
            throw new ErrnoException(Errno.EBUSY, "the root cannot be removed");
        }
        if (!node.children.isEmpty()) {
            throw new ErrnoException(Errno.ENOTEMPTY, path + " is not empty");
        }
        parent(path).children.remove(lastName(path));
        release(path, node);
        return node;
    }

    /** Removes a directory with all its descendants; has no effect if there is none. */
    public synchronized void removeTree(String path) throws ErrnoException {
        TreeNode<F> parent = parent(path);
        TreeNode<F> removed = parent.children.remove(lastName(path));
        if (removed != null && parent == root) {
            usedBytes -= removed.usedBytes;
        }
    }

    /** Renames a node and replaces the previous node of that name, by the rules of rename(2). */
    public synchronized RenameResult<F> rename(String from, String to) throws ErrnoException {
        TreeNode<F> node = find(from);
        TreeNode<F> newParent = parent(to);
        TreeNode<F> replaced = newParent.children.get(lastName(to));
        if (node == root || to.startsWith(from + "/")) {
            throw new ErrnoException(Errno.EINVAL, from + " cannot be renamed to " + to);
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
        reserve(to, (long) CHARACTER_BYTES * (node.isFile() ? to.length() : name.length()));
        if (replaced != null) {
            release(to, replaced);
        }
        parent(from).children.remove(lastName(from));
        newParent.children.put(name, node);
        return new RenameResult<>(node, replaced);
    }

    /** Returns the names in a directory. */
    public synchronized List<String> list(String path) throws ErrnoException {
        TreeNode<F> node = find(path);
        if (!node.isDirectory()) {
            throw new ErrnoException(Errno.ENOTDIR, path + " is not a directory");
        }
        return List.copyOf(node.children.keySet());
    }

    /** Returns the text of a symbolic link. */
    public String readLink(String path) throws ErrnoException {
        String target = find(path).linkTarget();
        if (target == null) {
            throw new ErrnoException(Errno.EINVAL, path + " is not a symbolic link");
        }
        return target;
    }

    public synchronized void changeMode(TreeNode<F> node, int permissions) {
        node.permissions = permissions & ~FileType.MASK;
    }

    /** Changes owner and group; -1 keeps the present one. */
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
        reserve(path, bytesOf(path, node));
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

    /** Returns the directory of the root that contains a path; null for those directories themselves. */
    private TreeNode<F> migrationOf(String path) {
        int end = path.indexOf('/', 1);
        return end < 0 ? null : root.children.get(path.substring(1, end));
    }

    private void reserve(String path, long bytes) throws ErrnoException {
        TreeNode<F> migration = migrationOf(path);
        if (migration == null) {
            return;
        }
        if (migration.usedBytes + bytes > MIGRATION_BYTES || usedBytes + bytes > ALL_BYTES) {
            throw new ErrnoException(
                    Errno.ENOSPC,
                    path + ": there is no space for further names: an image has space for about "
                            + MIGRATION_BYTES / FILE_BYTES + " files, all images together for three times as many");
        }
        migration.usedBytes += bytes;
        usedBytes += bytes;
    }

    /** A file's bytes stay reserved, because its contents are kept, and may be open. */
    private void release(String path, TreeNode<F> removed) {
        TreeNode<F> migration = migrationOf(path);
        if (migration != null && !removed.isFile()) {
            long bytes = bytesOf(path, removed);
            migration.usedBytes -= bytes;
            usedBytes -= bytes;
        } else if (migration == null) {
            usedBytes -= removed.usedBytes;
        }
    }

    /**
     * Returns the length of the longest path below a directory. Not recursive, because directories may be nested two
     * thousand levels deep, and the threads of this service have small stacks.
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
                    Errno.ENAMETOOLONG, path + ": a path may have at most " + MAX_PATH_BYTES + " bytes");
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
