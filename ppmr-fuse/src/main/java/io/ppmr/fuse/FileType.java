package io.ppmr.fuse;

/** The type bits of {@code st_mode}, from inode(7). */
public final class FileType {
    public static final int MASK = 0xF000;
    public static final int REGULAR = 0x8000;
    public static final int DIRECTORY = 0x4000;
    public static final int SYMLINK = 0xA000;

    private FileType() {}
}
