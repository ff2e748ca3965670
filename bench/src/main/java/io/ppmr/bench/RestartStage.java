package io.ppmr.bench;

import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;

/** FUSE reads out of arrived chunks, beside the filesystem in C that reads out of such a pool. */
final class RestartStage implements Stage {
    private static final String R = "R";

    private final StageOptions options;
    private final Bed bed = new Bed();
    private final Path mountPoint;
    private final NodeProcess node;
    private final LimitFilesystem filesystem;

    RestartStage(StageOptions options) throws Exception {
        this.options = options;
        mountPoint = bed.folder("target");
        node = bed.node("restart", "target", options);
        filesystem = bed.limit("limit", options, false, true);
        filesystem.write(options);
    }

    @Override
    public List<String> parts() {
        return List.of(R);
    }

    @Override
    public double part(String name) throws Exception {
        return filesystem.read(options).mibPerSecond();
    }

    @Override
    public Run run() throws Exception {
        String directory = node.ask("begin", options.writers, options.bytesAWriter);
        Nodes nodes = new Nodes(List.of(node));
        Span span =
                Clients.run(options, "read", options.bytesAWriter, mountPoint.resolve(directory) + "/rank-%d/image");
        Run run = nodes.run(span, options.allChunks());
        node.ask("end");
        return run;
    }

    @Override
    public String limitName() {
        return "filesystem in C";
    }

    @Override
    public double limit(Map<String, Double> parts) {
        return parts.get(R);
    }

    @Override
    public void close() throws IOException {
        bed.close();
    }
}
