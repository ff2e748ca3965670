package io.ppmr.bench;

import io.ppmr.bench.node.NodeSetting;
import io.ppmr.bufferpool.PoolGeometry;
import java.io.Closeable;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.Comparator;
import java.util.Deque;
import java.util.List;
import java.util.stream.Stream;

/** A folder for the mounts of one benchmark, and all that must be ended with it, in reverse order. */
final class Bed implements Closeable {
    private final Path folder;
    private final Deque<Closeable> all = new ArrayDeque<>();

    Bed() throws IOException {
        folder = Files.createTempDirectory(Path.of(System.getenv().getOrDefault("TMPDIR", "/tmp")), "ppmr-bench-");
    }

    Path folder(String name) throws IOException {
        return Files.createDirectories(folder.resolve(name));
    }

    <T extends Closeable> T add(T one) {
        all.push(one);
        return one;
    }

    NodeProcess node(String role, String name, StageOptions options) throws BenchFailure, IOException {
        return start(role, name, options, options.poolBytes).awaitReady();
    }

    /** With a pool of another size, and without waiting for it. */
    NodeProcess start(String role, String name, StageOptions options, long poolBytes) throws IOException {
        return add(NodeProcess.start(new NodeSetting(
                role,
                folder(name),
                PoolGeometry.of(poolBytes, Math.toIntExact(options.chunkBytes)),
                options.warmsUp(),
                options.carrier().targetWords())));
    }

    LimitFilesystem limit(String name, StageOptions options, boolean crc, boolean cycle)
            throws BenchFailure, IOException, InterruptedException {
        return add(LimitFilesystem.mount(folder(name), options, crc, cycle));
    }

    @Override
    public void close() throws IOException {
        IOException first = null;
        while (!all.isEmpty()) {
            try {
                all.pop().close();
            } catch (IOException e) {
                if (first == null) {
                    first = e;
                } else {
                    first.addSuppressed(e);
                }
            }
        }
        try (Stream<Path> left = Files.walk(folder)) {
            List<Path> deepestFirst = left.sorted(Comparator.reverseOrder()).toList();
            for (Path path : deepestFirst) {
                Files.delete(path);
            }
        }
        if (first != null) {
            throw first;
        }
    }
}
