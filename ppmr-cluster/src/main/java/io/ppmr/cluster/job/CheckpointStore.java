package io.ppmr.cluster.job;

import io.ppmr.linux.MountEntry;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.HexFormat;
import java.util.List;
import java.util.Optional;
import java.util.Set;

/**
 * Names the file system of a directory of checkpoints, so that controllers find the jobs that share it. Reads the mount
 * table alone: a remote file system whose server is gone would block any other access.
 */
final class CheckpointStore {
    /** File systems of one node without a device of their own, as in proc(5). */
    private static final Set<String> LOCAL = Set.of("tmpfs", "ramfs", "overlay", "zfs", "btrfs", "bcachefs", "rootfs");

    private static final int DIGEST_BYTES = 6;

    private CheckpointStore() {}

    /** Returns a digest that is the same on all nodes that mount this file system; empty if it is local. */
    static String nameOf(Path directory) throws IOException {
        return nameOf(directory, MountEntry.of(Path.of("/proc/self")));
    }

    static String nameOf(Path directory, List<MountEntry> mounts) {
        String path = MountEntry.bytesOf(directory);
        Optional<MountEntry> mount = mounts.stream()
                .filter(entry -> entry.contains(path))
                .reduce((lower, upper) ->
                        upper.mountPoint().length() >= lower.mountPoint().length() ? upper : lower);
        return mount.filter(entry -> !isLocal(entry))
                .map(entry -> digest(entry.type() + " " + entry.source()))
                .orElse("");
    }

    private static boolean isLocal(MountEntry mount) {
        return mount.source().startsWith("/dev/") || LOCAL.contains(mount.type());
    }

    private static String digest(String text) {
        try {
            byte[] digest = MessageDigest.getInstance("SHA-256").digest(text.getBytes(StandardCharsets.UTF_8));
            return HexFormat.of().formatHex(digest, 0, DIGEST_BYTES);
        } catch (GeneralSecurityException e) {
            throw new IllegalStateException("SHA-256 is missing in this JDK, though every JDK must have it", e);
        }
    }
}
