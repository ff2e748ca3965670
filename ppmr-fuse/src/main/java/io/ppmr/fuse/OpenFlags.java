package io.ppmr.fuse;

/** The flags of {@code open(2)}, by their Linux values on x86-64 and arm64. */
public record OpenFlags(int bits) {
    private static final int ACCESS_MODE = 3;
    private static final int WRITE_ONLY = 1;
    private static final int READ_WRITE = 2;
    private static final int EXCLUSIVE = 0x80;
    private static final int TRUNCATE = 0x200;
    private static final int APPEND = 0x400;

    public boolean writes() {
        int access = bits & ACCESS_MODE;
        return access == WRITE_ONLY || access == READ_WRITE;
    }

    public boolean reads() {
        return (bits & ACCESS_MODE) != WRITE_ONLY;
    }

    public boolean exclusive() {
        return (bits & EXCLUSIVE) != 0;
    }

    public boolean truncates() {
        return (bits & TRUNCATE) != 0;
    }

    public boolean appends() {
        return (bits & APPEND) != 0;
    }
}
