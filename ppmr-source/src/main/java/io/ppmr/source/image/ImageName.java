package io.ppmr.source.image;

import io.ppmr.source.image.ImageTee.FileCopy;

/**
 * A name in a complete image. Immutable.
 *
 * @param path relative to the migration's directory, {@code rank-0/image}; a directory comes before its contents
 * @param kind the kind of the file
 * @param copy the copy of a file; null for others
 * @param sizeBytes the size of a file; 0 for others
 * @param linkTarget the target of a symbolic link; null for others
 * @param uid the owner
 * @param gid the owner's group
 */
public record ImageName(
        String path, NameKind kind, FileCopy copy, long sizeBytes, String linkTarget, int uid, int gid) {
    /** The kinds of files. */
    public enum NameKind {
        DIRECTORY,
        FILE,
        SYMLINK
    }
}
