package io.ppmr.fuse;

import java.util.concurrent.TimeUnit;

/**
 * The settings of one mount. {@link FuseMount} has the options that every ppmr mount uses.
 *
 * @param fsname the source that {@code df} and {@code /proc/self/mountinfo} show; the service's identity is added
 * @param allowOther whether users other than the service's own may use the mount; without root this needs {@code
 *     user_allow_other} in {@code /etc/fuse.conf}
 * @param mountTimeoutNs how long {@link FuseMount#mount} waits for the proof that the mount responds
 * @param closeTimeoutNs how long {@link FuseMount#close} waits for the calls that are still in the view
 */
public record MountOptions(String fsname, boolean allowOther, long mountTimeoutNs, long closeTimeoutNs) {
    private static final long DEFAULT_MOUNT_TIMEOUT_NS = TimeUnit.SECONDS.toNanos(15);
    private static final long DEFAULT_CLOSE_TIMEOUT_NS = TimeUnit.SECONDS.toNanos(5);

    public MountOptions {
        if (!fsname.matches("[A-Za-z0-9_.-]+")) {
            throw new IllegalArgumentException("fsname '" + fsname + "': use letters, digits, '_', '.' and '-' only");
        }
        if (mountTimeoutNs <= 0 || closeTimeoutNs <= 0) {
            throw new IllegalArgumentException("mount and close timeout must be above 0, got " + mountTimeoutNs
                    + " ns and " + closeTimeoutNs + " ns");
        }
    }

    /** Returns the options of a mount for the service's own user, with the default deadlines. */
    public static MountOptions named(String fsname) {
        return new MountOptions(fsname, false, DEFAULT_MOUNT_TIMEOUT_NS, DEFAULT_CLOSE_TIMEOUT_NS);
    }

    /** Returns these options for all users. The kernel then checks permissions by owner and mode of each file. */
    public MountOptions forAllUsers() {
        return new MountOptions(fsname, true, mountTimeoutNs, closeTimeoutNs);
    }
}
