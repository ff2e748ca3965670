package io.ppmr.fuse;

import java.util.TreeMap;

/**
 * One name of a {@link NodeTree}: a regular file, a directory or a symbolic link. Guarded by its tree.
 *
 * @param <F> what stands behind a regular file
 */
public final class Node<F> {
    final TreeMap<String, Node<F>> children;
    private final long inode;
    private final int type;
    private final F file;
    private final String linkTarget;
    int permissions;
    int uid;
    int gid;
    long modifiedEpochNs;

    Node(long inode, int mode, int uid, int gid, long modifiedEpochNs, F file, String linkTarget) {
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
