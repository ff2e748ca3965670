package io.ppmr.bench;

import java.io.IOException;
import java.nio.file.Path;
import java.util.List;

/** A source and a target in processes of their own, joined anew for each run. */
final class Pair {
    private final StageOptions options;
    private final NodeProcess source;
    private final NodeProcess target;
    private final Path sourceMount;
    private final Path targetMount;

    /** Starts both. {@code sourceRole}: source, with a mount, or offer, without. */
    Pair(Bed bed, StageOptions options, String sourceRole, long poolBytes, String suffix)
            throws BenchFailure, IOException {
        this.options = options;
        sourceMount = bed.folder("source" + suffix);
        targetMount = bed.folder("target" + suffix);
        source = bed.start(sourceRole, "source" + suffix, options, poolBytes);
        if (options.warmsUp()) {
            // One after the other: two warm-ups at once would take each other's processors.
            source.awaitReady();
        }
        target = bed.start("target", "target" + suffix, options, poolBytes).awaitReady();
        if (!options.warmsUp()) {
            source.awaitReady();
        }
    }

    /** Joins the two; each one's images are then below the directory of this name in its mount. */
    private String join() throws BenchFailure, IOException {
        String where = target.ask("begin", options.writers, options.connections);
        String[] directoryAndProof =
                source.ask("begin", options.writers, options.connections, where).split(" ", 2);
        target.ask("join", directoryAndProof[1]);
        return directoryAndProof[0];
    }

    private void part() throws BenchFailure, IOException {
        source.ask("end");
        target.ask("end");
    }

    /** Threads at the source offer chunks. */
    Run offer() throws BenchFailure, IOException {
        join();
        Nodes nodes = new Nodes(List.of(source, target));
        String[] times = source.ask("offer", options.bytesAWriter).split(" ", -1);
        Span span = new Span(options.allBytes(), Long.parseLong(times[0]), Long.parseLong(times[1]));
        Run run = nodes.run(span, options.allChunks());
        part();
        return run;
    }

    /** Processes write into the source's mount; what arrives is dropped, since its names are gone. */
    Run write() throws BenchFailure, IOException, InterruptedException {
        String directory = join();
        Nodes nodes = new Nodes(List.of(source, target));
        Span span = Clients.run(
                options,
                "write",
                options.bytesAWriter,
                sourceMount.resolve(directory) + "/rank-%d/image",
                "--unlink",
                "--fsync");
        Run run = nodes.run(span, options.allChunks());
        part();
        return run;
    }

    /** Processes write into the source's mount and others read out of the target's meanwhile. */
    Run writeAndRead() throws BenchFailure, IOException, InterruptedException {
        String directory = join();
        Nodes nodes = new Nodes(List.of(source, target));
        Process readers =
                Clients.start(options, "read", options.bytesAWriter, targetMount.resolve(directory) + "/rank-%d/image");
        Process writers = null;
        try {
            writers = Clients.start(
                    options, "write", options.bytesAWriter, sourceMount.resolve(directory) + "/rank-%d/image");
            Span written = Programs.await(writers);
            source.ask("endranks");
            Span read = Programs.await(readers);
            Run run = nodes.run(new Span(written.bytes(), written.startNs(), read.endNs()), options.allChunks());
            part();
            return run;
        } finally {
            readers.destroyForcibly();
            if (writers != null) {
                writers.destroyForcibly();
            }
        }
    }
}
