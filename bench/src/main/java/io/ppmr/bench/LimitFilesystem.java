package io.ppmr.bench;

import io.ppmr.linux.Command;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Testbed;
import java.io.Closeable;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;

/** The filesystem in C, mounted. Stage A writes it, and stage R reads it. It is unmounted when closed. */
final class LimitFilesystem implements Closeable {
    private static final Duration MOUNT_LIMIT = Duration.ofSeconds(10);
    private static final long END_S = 5;

    private final StageOptions options;
    private final Path mountPoint;
    private final Process process;

    /**
     * Mounts it in a folder of this name.
     *
     * @param flags --crc to compute the CRC32C of full chunks, --cycle to use the whole pool in turn
     */
    LimitFilesystem(Testbed testbed, String name, StageOptions options, String... flags) throws Exception {
        this.options = options;
        mountPoint = testbed.folder(name);
        Object device = Files.getAttribute(mountPoint, "unix:dev");
        List<String> words = Command.words("--pool %s --chunk %s", options.poolBytes, options.chunkBytes);
        words.addAll(Arrays.asList(flags));
        words.add(mountPoint.toString());
        process = Programs.start("bench-limitfs", words);
        testbed.add(this);
        Conditions.until(
                MOUNT_LIMIT,
                "bench-limitfs is mounted at " + mountPoint,
                () -> !process.isAlive()
                        || !Files.getAttribute(mountPoint, "unix:dev").equals(device));
        if (!process.isAlive()) {
            throw new IOException(mountPoint + ": bench-limitfs did not mount; its message is above");
        }
    }

    /** Returns MiB/s. */
    double write() throws IOException, InterruptedException {
        return clients("write");
    }

    /** Reads names that were written before, in MiB/s. */
    double read() throws IOException, InterruptedException {
        return clients("read");
    }

    private double clients(String what) throws IOException, InterruptedException {
        return Programs.clients(options, what, mountPoint + "/image-%d").mibPerSecond();
    }

    @Override
    public void close() throws IOException {
        if (process.isAlive()) {
            Programs.end(new ProcessBuilder("umount", "-l", mountPoint.toString()).start(), END_S);
        }
        Programs.end(process, END_S);
    }
}
