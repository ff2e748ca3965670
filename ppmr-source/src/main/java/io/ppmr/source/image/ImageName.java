package io.ppmr.source.image;

import io.ppmr.source.image.ImageTee.FileCopy;

/**
 * A name in a whole image. Immutable.
 *
 * @param path relative to the migration's directory, {@code rank-0/image}; a directory comes before what is in it
 * @param kind what has it
 * @param copy the copy of a file; null for others
 * @param sizeBytes of a file; 0 for others
 * @param linkTarget of a symbolic link; null for others
 * @param uid who made it
 * @param gid the group of who made it
 */
public record ImageName(
        String path, NameKind kind, FileCopy copy, long sizeBytes, String linkTarget, int uid, int gid) {
    /** The kinds of things that can have a name. */
    public enum NameKind {
        DIRECTORY,
        FILE,
        SYMLINK
    }
}
