package io.ppmr.fuse;

import java.util.concurrent.TimeUnit;

/**
 * The settings of one mount; the options that every ppmr mount has stand in {@link FuseMount}.
 *
 * @param fsname what {@code df} and {@code /proc/self/mountinfo} show as the source; the service's identity is added
 * @param allowOther whether other users than the service's own may use the mount; without root this needs
 *     {@code user_allow_other} in {@code /etc/fuse.conf}
 * @param mountTimeoutNs how long {@link FuseMount#mount} waits for the proof that the mount answers
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

    /** A mount for the service's own user, with the usual deadlines. */
    public static MountOptions named(String fsname) {
        return new MountOptions(fsname, false, DEFAULT_MOUNT_TIMEOUT_NS, DEFAULT_CLOSE_TIMEOUT_NS);
    }

    /** The same for all users; who may do what is then the kernel's decision, from owner and mode of each file. */
    public MountOptions forAllUsers() {
        return new MountOptions(fsname, true, mountTimeoutNs, closeTimeoutNs);
    }
}
