package io.ppmr.cli.config;

import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.checkpoint.Fence;
import io.ppmr.transport.auth.PreSharedKey;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;

/** Reads what both roles have. What is wrong is reported in the file, and null returned. */
final class CommonValues {
    private CommonValues() {}

    static PoolGeometry pool(ConfigFile file) {
        ConfigFile.Section section = file.section(CommonKeys.POOL);
        Long size = section.get(CommonKeys.POOL_SIZE);
        Long chunk = section.get(CommonKeys.POOL_CHUNK);
        if (chunk == null) {
            return null;
        }
        if (chunk < PoolGeometry.MIN_CHUNK_BYTES || chunk > PoolGeometry.MAX_CHUNK_BYTES || Long.bitCount(chunk) != 1) {
            section.bad(CommonKeys.POOL_CHUNK, "is " + chunk + " bytes; it must be a power of two from 16k to 4m");
            return null;
        }
        if (size == null) {
            return null;
        }
        try {
            return PoolGeometry.of(size, Math.toIntExact(chunk));
        } catch (IllegalArgumentException | ArithmeticException e) {
            section.bad(
                    CommonKeys.POOL_SIZE,
                    "is " + size + " bytes; it must be a multiple of the chunk (" + chunk + " bytes), at least "
                            + PoolGeometry.MIN_CHUNKS + " of them, and smaller than 2g");
            return null;
        }
    }

    static PreSharedKey key(ConfigFile file, ConfigFile.Section top) {
        Path path = top.get(CommonKeys.KEY_FILE);
        if (path == null || !file.here()) {
            return null;
        }
        try {
            return PreSharedKey.load(path);
        } catch (IOException e) {
            top.bad(CommonKeys.KEY_FILE, e.getMessage());
            return null;
        }
    }

    /** Where the meters are shown, if they are; meaningless where the file has mistakes. */
    static Optional<InetSocketAddress> metrics(ConfigFile file) {
        ConfigFile.Section section = file.section(CommonKeys.METRICS);
        Integer port = section.get(CommonKeys.METRICS_PORT);
        String address = section.get(CommonKeys.METRICS_ADDRESS);
        if (port == null || address == null || !file.here()) {
            return Optional.empty();
        }
        InetSocketAddress resolved = new InetSocketAddress(address, port);
        if (resolved.isUnresolved()) {
            section.bad(CommonKeys.METRICS_ADDRESS, "\"" + address + "\" is no address of this node: give one");
        }
        return Optional.of(resolved);
    }

    /** Inside the mount the commands' own files would be taken for images. */
    static void requireApart(ConfigFile.Section top, Path mount, Path work) {
        if (mount != null && work != null && work.startsWith(mount)) {
            top.bad(CommonKeys.WORK_DIRECTORY, work + " lies inside the mount " + mount + ": name a folder outside");
        }
    }

    /** The fence, if the file has one. */
    static Optional<Fence> fence(ConfigFile file) {
        ConfigFile.Section section = file.section(CommonKeys.FENCE);
        List<String> words = section.get(CommonKeys.FENCE_COMMAND);
        Duration delay = section.get(CommonKeys.FENCE_DELAY);
        Duration deadline = section.get(CommonKeys.FENCE_DEADLINE);
        return words == null || delay == null || deadline == null
                ? Optional.empty()
                : Optional.of(new Fence(words, delay, deadline));
    }
}
