package io.ppmr.fuse;

/**
 * The result of {@code stat(2)} for one name.
 *
 * @param inode number of the file, constant while it exists, above 0
 * @param mode type and permission bits as in {@code st_mode} ({@link FileType})
 * @param links hard links
 * @param uid owner
 * @param gid group
 * @param sizeBytes size known so far
 * @param modifiedEpochNs last modification, nanoseconds since the epoch
 */
public record FileAttributes(long inode, int mode, int links, int uid, int gid, long sizeBytes, long modifiedEpochNs) {}
