package io.ppmr.fuse;

import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;
import jnr.constants.platform.Errno;
import jnr.ffi.LibraryLoader;
import jnr.ffi.LibraryOption;
import jnr.ffi.Pointer;
import jnr.ffi.Runtime;

/**
 * mount(2) and umount2(2), called directly: no path of a dead mount is looked at on the way, as umount(8) might. An
 * ordinary user's unmount goes through fusermount(1), which is set-uid root. Stateless; any thread.
 */
final class MountCalls {
    private static final int MNT_DETACH = 2;
    private static final int UMOUNT_NOFOLLOW = 8;
    private static final int MS_NOSUID = 2;
    private static final int MS_NODEV = 4;
    private static final int MS_NOEXEC = 8;
    private static final long FUSERMOUNT_TIMEOUT_NS = TimeUnit.SECONDS.toNanos(5);
    private static final LibC LIBC =
            LibraryLoader.loadLibrary(LibC.class, java.util.Map.of(LibraryOption.SaveError, Boolean.TRUE), "c");
    private static final Runtime RUNTIME = Runtime.getRuntime(LIBC);

    private MountCalls() {}

    /** The functions of the C library that we call; public because jnr-ffi implements it. */
    public interface LibC {
        int geteuid();

        int mount(String source, String target, String type, long flags, Pointer data);

        int umount2(String target, int flags);
    }

    static boolean isRoot() {
        return LIBC.geteuid() == 0;
    }

    /** Mounts a kernel filesystem that has no device, such as fusectl. */
    static void mountKernelFilesystem(String type, Path target) throws IOException {
        if (LIBC.mount(type, target.toString(), type, MS_NOSUID | MS_NODEV | MS_NOEXEC, null) != 0) {
            throw new MountException("cannot mount " + type + " at " + target + ": " + lastError());
        }
    }

    /** Takes the topmost mount off the tree at once, whoever still holds it (MNT_DETACH of umount(2)). */
    static void detach(Path mountPoint) throws IOException, InterruptedException {
        if (isRoot()) {
            if (LIBC.umount2(mountPoint.toString(), MNT_DETACH | UMOUNT_NOFOLLOW) != 0) {
                throw new MountException("cannot unmount " + mountPoint + ": " + lastError()
                        + "; unmount it by hand with 'umount -l " + mountPoint + "'");
            }
            return;
        }
        ChildProcess.Result result =
                ChildProcess.run(List.of("fusermount", "-u", "-z", mountPoint.toString()), FUSERMOUNT_TIMEOUT_NS);
        if (!result.succeeded()) {
            throw new MountException("cannot unmount " + mountPoint + ": fusermount says: " + result.describe()
                    + "; unmount it by hand with 'fusermount -u -z " + mountPoint + "'");
        }
    }

    private static String lastError() {
        int number = RUNTIME.getLastError();
        return Errno.valueOf(number).description() + " (errno " + number + ")";
    }
}
