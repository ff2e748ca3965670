package io.ppmr.fuse;

import java.time.Instant;
import java.util.List;
import java.util.TreeMap;

/**
 * The names of a filesystem that lives in memory: both services keep theirs in one. Cold path; one lock guards the
 * whole tree, and nothing waits under it.
 *
 * @param <F> what stands behind a regular file
 */
public final class NodeTree<F> {
    private static final int MAX_NAME_BYTES = 255;
    private static final int NANOS = 1_000_000_000;

    /**
     * One name: a regular file, a directory or a symbolic link. Guarded by its tree.
     *
     * @param <F> what stands behind a regular file
     */
    public static final class Node<F> {
        private final TreeMap<String, Node<F>> children;
        private final long inode;
        private final int type;
        private final F file;
        private final String linkTarget;
        private int permissions;
        private int uid;
        private int gid;
        private long modifiedEpochNs;

        private Node(long inode, int mode, int uid, int gid, long modifiedEpochNs, F file, String linkTarget) {
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

        /** What stands behind a regular file; null for others. */
        public F file() {
            return file;
        }

        /** What stands behind a regular file; EISDIR for others. */
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

        /** What stat(2) answers, with the size that the caller knows. */
        public FileAttributes attributes(long sizeBytes) {
            int links = isDirectory() ? 2 : 1;
            return new FileAttributes(inode, mode(), links, uid, gid, sizeBytes, modifiedEpochNs);
        }
    }

    private final Node<F> root;
    private long lastInode = 1;

    /** An empty tree whose root belongs to {@code uid} and is open to all for looking. */
    public NodeTree(int uid, int gid) {
        root = new Node<>(1, FileType.DIRECTORY | 0755, uid, gid, nowEpochNs(), null, null);
    }

    /** What a change of names did: the node concerned, and the node that it replaced or null. */
    public record Renamed<F>(Node<F> node, Node<F> replaced) {}

    /** The node at a path. */
    public synchronized Node<F> find(String path) throws ErrnoException {
        Node<F> node = root;
        for (String name : names(path)) {
            node = child(node, name, path);
        }
        return node;
    }

    /** Adds a regular file. */
    public synchronized Node<F> addFile(String path, int permissions, int uid, int gid, F file) throws ErrnoException {
        return add(path, FileType.REGULAR | permissions, uid, gid, file, null);
    }

    /** Adds a directory. */
    public synchronized Node<F> addDirectory(String path, int permissions, int uid, int gid) throws ErrnoException {
        return add(path, FileType.DIRECTORY | permissions, uid, gid, null, null);
    }

    /** Adds a symbolic link. */
    public synchronized Node<F> addSymlink(String path, String target, int uid, int gid) throws ErrnoException {
        return add(path, FileType.SYMLINK | 0777, uid, gid, null, target);
    }

    /** Takes a file or a link out. */
    public synchronized Node<F> removeFile(String path) throws ErrnoException {
        Node<F> node = find(path);
        if (node.isDirectory()) {
            throw new ErrnoException(Errno.EISDIR, path + " is a directory");
        }
        parent(path).children.remove(lastName(path));
        return node;
    }

    /** Takes an empty directory out. */
    public synchronized Node<F> removeDirectory(String path) throws ErrnoException {
        Node<F> node = find(path);
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
        return node;
    }

    /** Takes a directory out with all that is in it; nothing happens where there is none. */
    public synchronized void removeTree(String path) throws ErrnoException {
        parent(path).children.remove(lastName(path));
    }

    /** Gives a node another name, in place of what had it, by the rules of rename(2). */
    public synchronized Renamed<F> rename(String from, String to) throws ErrnoException {
        Node<F> node = find(from);
        Node<F> newParent = parent(to);
        Node<F> replaced = newParent.children.get(lastName(to));
        if (node == root || to.startsWith(from + "/")) {
            throw new ErrnoException(Errno.EINVAL, from + " cannot become " + to);
        }
        if (replaced == node) {
            return new Renamed<>(node, null);
        }
        if (replaced != null) {
            requireReplaceable(node, replaced, to);
        }
        parent(from).children.remove(lastName(from));
        newParent.children.put(checkedName(to), node);
        return new Renamed<>(node, replaced);
    }

    /** The names in a directory. */
    public synchronized List<String> list(String path) throws ErrnoException {
        Node<F> node = find(path);
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

    public synchronized void changeMode(Node<F> node, int permissions) {
        node.permissions = permissions & ~FileType.MASK;
    }

    /** {@code uid} or {@code gid} of -1 leaves that one as it is. */
    public synchronized void changeOwner(Node<F> node, int uid, int gid) {
        node.uid = uid == -1 ? node.uid : uid;
        node.gid = gid == -1 ? node.gid : gid;
    }

    public synchronized void changeModificationTime(Node<F> node, long epochNs) {
        node.modifiedEpochNs = epochNs;
    }

    private Node<F> add(String path, int mode, int uid, int gid, F file, String linkTarget) throws ErrnoException {
        Node<F> parent = parent(path);
        String name = checkedName(path);
        if (parent.children.containsKey(name)) {
            throw new ErrnoException(Errno.EEXIST, path + " exists");
        }
        Node<F> node = new Node<>(++lastInode, mode, uid, gid, nowEpochNs(), file, linkTarget);
        parent.children.put(name, node);
        return node;
    }

    private void requireReplaceable(Node<F> node, Node<F> replaced, String to) throws ErrnoException {
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

    private Node<F> parent(String path) throws ErrnoException {
        int slash = path.lastIndexOf('/');
        Node<F> parent = find(path.substring(0, Math.max(slash, 0)));
        if (!parent.isDirectory()) {
            throw new ErrnoException(Errno.ENOTDIR, path + ": its parent is not a directory");
        }
        return parent;
    }

    private Node<F> child(Node<F> node, String name, String path) throws ErrnoException {
        if (!node.isDirectory()) {
            throw new ErrnoException(Errno.ENOTDIR, path + ": a part of it is not a directory");
        }
        Node<F> child = node.children.get(name);
        if (child == null) {
            throw new ErrnoException(Errno.ENOENT, path + " does not exist");
        }
        return child;
    }

    private static List<String> names(String path) {
        return List.of(path.split("/")).stream().filter(name -> !name.isEmpty()).toList();
    }

    private static String lastName(String path) {
        return path.substring(path.lastIndexOf('/') + 1);
    }

    private static String checkedName(String path) throws ErrnoException {
        String name = lastName(path);
        if (name.getBytes(java.nio.charset.StandardCharsets.UTF_8).length > MAX_NAME_BYTES) {
            throw new ErrnoException(Errno.ENAMETOOLONG, name + " is longer than " + MAX_NAME_BYTES + " bytes");
        }
        return name;
    }

    private static long nowEpochNs() {
        Instant now = Instant.now();
        return now.getEpochSecond() * NANOS + now.getNano();
    }
}
