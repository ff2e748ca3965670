package io.ppmr.fuse;

import io.ppmr.linux.Command;
import io.ppmr.linux.LibC;
import io.ppmr.linux.MountEntry;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.List;
import jnr.ffi.Memory;
import jnr.ffi.Pointer;
import jnr.ffi.Runtime;

/**
 * Calls mount(2) and umount2(2) directly. They do not access the path of a dead mount, as umount(8) might. An ordinary
 * user's unmount uses fusermount(1), which is set-uid root. Stateless; any thread.
 */
final class MountCalls {
    private static final Path CONNECTIONS = Path.of("/sys/fs/fuse/connections");
    private static final int MNT_DETACH = 2;
    private static final int UMOUNT_NOFOLLOW = 8;
    private static final int MS_NOSUID = 2;
    private static final int MS_NODEV = 4;
    private static final int MS_NOEXEC = 8;
    private static final Duration FUSERMOUNT_TIMEOUT = Duration.ofSeconds(5);

    private MountCalls() {}

    /** Mounts a kernel filesystem that has no device, such as fusectl. */
    static void mountKernelFilesystem(String type, Path target) throws IOException {
        mountWithoutDevice(type, target, type, "");
    }

    /** Mounts a filesystem with the given source and options, without set-user-ID, devices and execution. */
    static void mountWithoutDevice(String source, Path target, String type, String options) throws IOException {
        byte[] text = options.getBytes(StandardCharsets.US_ASCII);
        Pointer data = Memory.allocateDirect(Runtime.getSystemRuntime(), text.length + 1, true);
        data.put(0, text, 0, text.length);
        if (LibC.CALLS.mount(source, target.toString(), type, MS_NOSUID | MS_NODEV | MS_NOEXEC, data) != 0) {
            throw new MountException("cannot mount " + type + " at " + target + ": " + lastError());
        }
    }

    /**
     * Aborts the connection of a FUSE mount through the kernel's control filesystem (fusectl, {@code
     * Documentation/filesystems/fuse.rst}). This ends every waiting request, and so frees readers, and services that
     * hang on their own mount. Mounts fusectl first if it is not mounted, which needs root.
     *
     * @return false if the kernel lists no such connection: then no request waits in it
     */
    static boolean abortConnection(int deviceMinor) throws IOException {
        if (MountEntry.at(CONNECTIONS).isEmpty()) {
            mountControl();
        }
        Path abort = CONNECTIONS.resolve(Integer.toString(deviceMinor)).resolve("abort");
        if (!Files.exists(abort)) {
            return false;
        }
        Files.write(abort, "1".getBytes(StandardCharsets.US_ASCII), StandardOpenOption.WRITE);
        return true;
    }

    private static void mountControl() throws IOException {
        try {
            mountKernelFilesystem("fusectl", CONNECTIONS);
        } catch (MountException e) {
            // The services of a node may mount it at the same time, so one of them finds it mounted.
            if (MountEntry.at(CONNECTIONS).isEmpty()) {
                throw e;
            }
        }
    }

    /** Detaches the topmost mount from the tree at once, even if it is in use (MNT_DETACH of umount(2)). */
    static void detach(Path mountPoint) throws IOException, InterruptedException {
        if (LibC.isRoot()) {
            if (LibC.CALLS.umount2(mountPoint.toString(), MNT_DETACH | UMOUNT_NOFOLLOW) != 0) {
                throw new MountException("cannot unmount " + mountPoint + ": " + lastError()
                        + "; unmount it by hand with 'umount -l " + mountPoint + "'");
            }
            return;
        }
        Command.CommandResult result = command(List.of("fusermount", "-u", "-z", mountPoint.toString()))
                .run(FUSERMOUNT_TIMEOUT);
        if (!result.succeeded()) {
            throw new MountException("cannot unmount " + mountPoint + ": fusermount reports: " + result.describe()
                    + "; unmount it by hand with 'fusermount -u -z " + mountPoint + "'");
        }
    }

    /**
     * Returns a command that accesses a mount in place of this process. A service must never hold a file of its own
     * mount, because it would hang in the kernel when it is killed.
     */
    static Command command(List<String> words) {
        return Command.of(words).in(Path.of("/")).with("LC_ALL", "C");
    }

    private static String lastError() {
        return LibC.describe(LibC.errno());
    }
}
