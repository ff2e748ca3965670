package io.ppmr.checkpoint.files;

import java.util.Optional;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The state of a file from {@code ppmr-look}. Its line comes from a process of the job's user, or from another node, so
 * each field is checked before it is accepted. Immutable.
 *
 * @param which 1 if the first of two paths led to it, 2 if the second did
 * @param identity distinguishes it from other files
 * @param mode its type and permissions, inode(7)
 * @param uid its owner
 * @param gid its group
 * @param lengthBytes its length
 * @param rdev number of a device file, MAJOR:MINOR
 * @param links number of its names
 * @param changed times of the last changes of its content and its status
 * @param allocatedBytes its size on its disk or in memory
 */
public record FileFacts(
        int which,
        FileIdentity identity,
        int mode,
        long uid,
        long gid,
        long lengthBytes,
        String rdev,
        long links,
        String changed,
        long allocatedBytes) {
    /**
     * Distinguishes a file from other files.
     *
     * @param system the type of its filesystem, {@code f_type} in statfs(2)
     * @param handle finds it in its filesystem, name_to_handle_at(2); {@code -} for none
     * @param inode its number in its filesystem
     * @param device its filesystem at its node, MAJOR:MINOR
     */
    public record FileIdentity(long system, String handle, String inode, String device) {}

    /** Maximum length of a valid line, for limits of readers. */
    public static final int LONGEST_LINE = 1024;

    private static final Pattern LINE = Pattern.compile("found ([12]) ([0-9a-f]{1,8}) (-|-?\\d{1,10}:[0-9a-f]{0,256})"
            + " ([0-7]{1,7}) (\\d{1,10}) (\\d{1,10}) (\\d{1,18}) (\\d{1,10}:\\d{1,10}) (\\d{1,10}) (\\d{1,20})"
            + " (\\d{1,10}:\\d{1,10}) (-?\\d{1,19}\\.\\d{9} -?\\d{1,19}\\.\\d{9}) (\\d{1,18})");
    private static final Pattern ERROR = Pattern.compile("error (\\d{1,4})");
    private static final int OCTAL = 8;
    private static final int HEX = 16;

    private static final int TYPE = 0170000;
    private static final int PERMISSIONS = 07777;
    private static final int DIRECTORY = 0040000;
    private static final int CHARACTER_DEVICE = 0020000;
    private static final int BLOCK_DEVICE = 0060000;
    private static final int REGULAR = 0100000;
    private static final int SOCKET = 0140000;

    private static final long PROC = 0x9fa0;
    private static final long DEVPTS = 0x1cd1;
    private static final long FUSE = 0x65735546;
    /** sysfs, cgroup, cgroup2, debugfs, tracefs, securityfs, configfs, bpf, pstore, efivarfs. */
    private static final Set<Long> OF_KERNEL = Set.of(
            0x62656572L,
            0x27e0ebL,
            0x63677270L,
            0x64626720L,
            0x74726163L,
            0x73636673L,
            0x62656570L,
            0xcafe4a11L,
            0x6165676cL,
            0xde5e81e4L);

    /**
     * Filesystems of one node's disks and memory: ext, XFS, Btrfs, tmpfs, ramfs, overlayfs, F2FS, ReiserFS, JFS,
     * hugetlbfs, ZFS, EROFS, squashfs, ISO 9660, FAT, exFAT, NTFS, devtmpfs of old kernels, bcachefs, mqueue, minix,
     * UDF, NILFS, eCryptfs, AUFS, HFS+, UBIFS.
     */
    private static final Set<Long> OF_ONE_NODE = Set.of(
            0xef53L,
            0x58465342L,
            0x9123683eL,
            0x1021994L,
            0x858458f6L,
            0x794c7630L,
            0xf2f52010L,
            0x52654973L,
            0x3153464aL,
            0x958458f6L,
            0x2fc12fc1L,
            0xe0f5e1e2L,
            0x73717368L,
            0x9660L,
            0x4d44L,
            0x2011bab0L,
            0x5346544eL,
            0x7366746eL,
            0x1373L,
            0xca451a4eL,
            0x19800202L,
            0x137fL,
            0x15013346L,
            0x3434L,
            0xf15fL,
            0x61756673L,
            0x482bL,
            0x24051905L);

    /** Parses a line, or empty if it does not describe a file. */
    public static Optional<FileFacts> parse(String line) {
        Matcher fields = LINE.matcher(line);
        if (!fields.matches()) {
            return Optional.empty();
        }
        FileIdentity identity = new FileIdentity(
                Long.parseLong(fields.group(2), HEX), fields.group(3), fields.group(10), fields.group(11));
        return Optional.of(new FileFacts(
                Integer.parseInt(fields.group(1)),
                identity,
                Integer.parseInt(fields.group(4), OCTAL),
                Long.parseLong(fields.group(5)),
                Long.parseLong(fields.group(6)),
                Long.parseLong(fields.group(7)),
                fields.group(8),
                Long.parseLong(fields.group(9)),
                fields.group(12),
                Long.parseLong(fields.group(13))));
    }

    /** Returns the error number of a line about a file that cannot be inspected; 0 for any other line. */
    public static int error(String line) {
        Matcher fields = ERROR.matcher(line);
        return fields.matches() ? Integer.parseInt(fields.group(1)) : 0;
    }

    /** Returns the type of its filesystem, {@code f_type} in statfs(2). */
    public long system() {
        return identity.system();
    }

    /** Returns its number in its filesystem. */
    public String inode() {
        return identity.inode();
    }

    /** Returns its filesystem at its node, MAJOR:MINOR. */
    public String device() {
        return identity.device();
    }

    public boolean isRegular() {
        return (mode & TYPE) == REGULAR;
    }

    public boolean isDirectory() {
        return (mode & TYPE) == DIRECTORY;
    }

    public boolean isSocket() {
        return (mode & TYPE) == SOCKET;
    }

    public boolean isDevice() {
        return (mode & TYPE) == CHARACTER_DEVICE || (mode & TYPE) == BLOCK_DEVICE;
    }

    /** Returns true if it is a file of {@code /proc}. */
    public boolean isOfProc() {
        return identity.system == PROC;
    }

    /** Returns true if the kernel generates the file, as in {@code /sys} and cgroups. Then its path identifies it. */
    public boolean isOfKernel() {
        return OF_KERNEL.contains(identity.system);
    }

    /** Returns true for terminals, which are numbered by each node. */
    public boolean isTerminal() {
        return identity.system == DEVPTS;
    }

    /** Returns the permissions with the set-user-ID, set-group-ID and sticky bits. */
    public int permissions() {
        return mode & PERMISSIONS;
    }

    /** Returns the time of its last change of content, {@code SECONDS.NANOSECONDS}. */
    public String modified() {
        return changed.substring(0, changed.indexOf(' '));
    }

    /** Returns true if both are files of one type, such as regular ones. */
    public boolean isOfTypeOf(FileFacts other) {
        return (mode & TYPE) == (other.mode & TYPE);
    }

    /** Returns true if its filesystem belongs to one node, however similar those of two nodes are. */
    public boolean isOfOneNode() {
        return OF_ONE_NODE.contains(identity.system);
    }

    /**
     * Returns true if two equal objects cannot be two files with one number. A FUSE server may number its files in the
     * order of their lookups, so length and times must agree as well.
     */
    boolean isSurelySame(FileFacts other) {
        return identity.system != FUSE
                || !isRegular()
                || (lengthBytes == other.lengthBytes && changed.equals(other.changed));
    }

    /**
     * Returns true if both are the same object, from two nodes. Nodes whose disks were copied from one image have files
     * with the same handles. Therefore files on a disk of one node are the same only if one kernel shows both. FUSE
     * invents handles, so for FUSE the number from the filesystem's server counts.
     *
     * @param sameKernel whether one kernel has inspected both
     */
    public boolean isSameObject(FileFacts other, boolean sameKernel) {
        if (identity.system != other.identity.system || !isOfTypeOf(other) || mode != other.mode || uid != other.uid) {
            return false;
        }
        if (isOfOneNode() && !(sameKernel && identity.device.equals(other.identity.device))) {
            return false;
        }
        boolean byNumber = identity.system == FUSE || identity.handle.equals("-") || other.identity.handle.equals("-");
        return byNumber ? identity.inode.equals(other.identity.inode) : identity.handle.equals(other.identity.handle);
    }
}
