package io.ppmr.bench;

import java.io.Closeable;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/** The filesystem in C, mounted: A where it is written, R where it is read. Unmounted when closed. */
final class LimitFilesystem implements Closeable {
    private static final long MOUNT_LIMIT_NS = TimeUnit.SECONDS.toNanos(10);
    private static final long END_S = 5;
    private static final long POLL_NS = TimeUnit.MILLISECONDS.toNanos(10);

    private final Path mountPoint;
    private final Process process;

    private LimitFilesystem(Path mountPoint, Process process) {
        this.mountPoint = mountPoint;
        this.process = process;
    }

    /**
     * Mounts it.
     *
     * @param crc whether it takes the CRC32C of full chunks
     * @param cycle whether it uses the whole pool in turn
     */
    static LimitFilesystem mount(Path mountPoint, StageOptions options, boolean crc, boolean cycle)
            throws BenchFailure, IOException, InterruptedException {
        Files.createDirectories(mountPoint);
        Object device = Files.getAttribute(mountPoint, "unix:dev");
        List<String> words = new ArrayList<>(
                List.of("--pool", Long.toString(options.poolBytes), "--chunk", Long.toString(options.chunkBytes)));
        if (crc) {
            words.add("--crc");
        }
        if (cycle) {
            words.add("--cycle");
        }
        words.add(mountPoint.toString());
        LimitFilesystem mounted = new LimitFilesystem(mountPoint, Programs.start("bench-limitfs", words));
        long deadlineNs = System.nanoTime() + MOUNT_LIMIT_NS;
        while (Files.getAttribute(mountPoint, "unix:dev").equals(device)) {
            if (!mounted.process.isAlive() || System.nanoTime() - deadlineNs > 0) {
                mounted.close();
                throw new BenchFailure(mountPoint + ": bench-limitfs did not mount; its message is above");
            }
            LockSupport.parkNanos(POLL_NS);
        }
        return mounted;
    }

    Span write(StageOptions options) throws BenchFailure, IOException, InterruptedException {
        return Clients.run(options, "write", options.bytesAWriter, mountPoint + "/image-%d");
    }

    /** Reads names that were written before. */
    Span read(StageOptions options) throws BenchFailure, IOException, InterruptedException {
        return Clients.run(options, "read", options.bytesAWriter, mountPoint + "/image-%d");
    }

    @Override
    public void close() throws IOException {
        if (process.isAlive()) {
            Programs.end(new ProcessBuilder("umount", "-l", mountPoint.toString()).start(), END_S);
        }
        Programs.end(process, END_S);
    }
}
