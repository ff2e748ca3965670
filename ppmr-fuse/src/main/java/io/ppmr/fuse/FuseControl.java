package io.ppmr.fuse;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/**
 * The kernel's control filesystem for FUSE (fusectl, {@code Documentation/filesystems/fuse.rst}): aborting a
 * connection ends every request that waits in it, which frees readers, and services that hang on their own mount.
 */
final class FuseControl {
    private static final Path CONNECTIONS = Path.of("/sys/fs/fuse/connections");

    private FuseControl() {}

    /**
     * Aborts the connection of a mount. Mounts fusectl first where it is not mounted, which needs root.
     *
     * @return false where the kernel lists no such connection: then nothing waits in it
     */
    static boolean abort(int deviceMinor) throws IOException {
        if (MountEntry.at(CONNECTIONS).isEmpty()) {
            MountCalls.mountKernelFilesystem("fusectl", CONNECTIONS);
        }
        Path abort = CONNECTIONS.resolve(Integer.toString(deviceMinor)).resolve("abort");
        if (!Files.exists(abort)) {
            return false;
        }
        Files.write(abort, "1".getBytes(StandardCharsets.US_ASCII), StandardOpenOption.WRITE);
        return true;
    }
}
