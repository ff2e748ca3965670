package io.ppmr.fuse;

import io.ppmr.linux.Command;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/**
 * Measures a null view through a real mount: {@code ThroughputMain write|read MIB_A_CLIENT}. Prints the rate over the
 * bytes moved so far, from the first byte on. It uses 8 {@code dd} with 128 KiB requests, after a warm-up of the given
 * number of small requests. Run by hand in a fresh JVM, because the warm-up is measured as well.
 */
final class ThroughputMain {
    private static final int CLIENTS = 8;
    private static final long SLICE_BYTES = 32L << 20;
    private static final long SAMPLE_NS = TimeUnit.MILLISECONDS.toNanos(1);
    private static final long DEADLINE_NS = TimeUnit.SECONDS.toNanos(60);
    private static final double MIB = 1 << 20;

    private ThroughputMain() {}

    public static void main(String[] arguments) throws Exception {
        boolean writes = arguments[0].equals("write");
        int mibEach = Integer.parseInt(arguments[1]);
        NullView view = new NullView();
        Path mountPoint = Files.createTempDirectory("ppmr-throughput");
        try (FuseMount mount = FuseMount.mount(view, mountPoint, MountOptions.named("ppmr-throughput"))) {
            measure(view, mount.mountPoint(), writes, mibEach);
        } finally {
            Files.delete(mountPoint);
        }
        view.free();
    }

    private static void measure(NullView view, Path directory, boolean writes, int mibEach) throws Exception {
        List<Command.RunningCommand> clients = new ArrayList<>();
        long start = view.bytes.sum();
        long mark = start;
        long callsMark = view.calls.sum();
        long markNs = System.nanoTime();
        for (int client = 0; client < CLIENTS; client++) {
            String file = directory.resolve("measured-" + client).toString();
            clients.add(MountCalls.command(List.of(
                            "dd",
                            "if=" + (writes ? "/dev/zero" : file),
                            "of=" + (writes ? file : "/dev/null"),
                            "bs=128K",
                            "count=" + mibEach * 8))
                    .start());
        }
        long total = ((long) mibEach * CLIENTS) << 20;
        long deadlineNs = markNs + DEADLINE_NS;
        long now = start;
        while (now - start < total && System.nanoTime() - deadlineNs < 0) {
            LockSupport.parkNanos(SAMPLE_NS);
            now = view.bytes.sum();
            if (now - mark >= SLICE_BYTES) {
                long nowNs = System.nanoTime();
                System.out.printf(
                        "%6d MiB moved  %7.0f MiB/s  (%d bytes a request)%n",
                        (now - start) >> 20,
                        (now - mark) / MIB / ((nowNs - markNs) / 1e9),
                        (now - mark) / (view.calls.sum() - callsMark));
                mark = now;
                markNs = nowNs;
                callsMark = view.calls.sum();
            }
        }
        for (Command.RunningCommand client : clients) {
            client.kill();
        }
    }
}
