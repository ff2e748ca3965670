package io.ppmr.bench;

import java.io.IOException;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** FUSE writes into the source's pool (Fig. 7), beside the filesystem in C that does the same. */
final class AggregationStage implements Stage {
    private static final String WITH_CRC = "A with CRC";
    private static final String WITHOUT_CRC = "A";
    private static final String OURS_WITHOUT_CRC = "ours without CRC";

    private final StageOptions options;
    private final Bed bed = new Bed();
    private final NodeProcess node;
    private final Path mountPoint;
    private final LimitFilesystem withCrc;
    private final LimitFilesystem withoutCrc;
    private final NodeProcess binding;
    private final Path bindingMount;

    AggregationStage(StageOptions options) throws Exception {
        this.options = options;
        mountPoint = bed.folder("source");
        node = bed.node("aggregation", "source", options);
        withCrc = bed.limit("limit-crc", options, true, false);
        withoutCrc = bed.limit("limit", options, false, false);
        bindingMount = bed.folder("binding");
        binding = bed.node("null", "binding", options);
    }

    @Override
    public List<String> parts() {
        return List.of(WITH_CRC, WITHOUT_CRC, OURS_WITHOUT_CRC);
    }

    @Override
    public double part(String name) throws Exception {
        return switch (name) {
            case WITH_CRC -> withCrc.write(options).mibPerSecond();
            case WITHOUT_CRC -> withoutCrc.write(options).mibPerSecond();
            default -> run("plain").mibPerSecond();
        };
    }

    @Override
    public Run run() throws Exception {
        return run("crc");
    }

    private Run run(String crc) throws Exception {
        String directory = node.ask("begin", options.writers, crc);
        Nodes nodes = new Nodes(List.of(node));
        Span span =
                Clients.run(options, "write", options.bytesAWriter, mountPoint.resolve(directory) + "/rank-%d/image");
        Run run = nodes.run(span, options.allChunks());
        node.ask("end");
        return run;
    }

    @Override
    public String limitName() {
        return "filesystem in C with CRC32C";
    }

    @Override
    public double limit(Map<String, Double> parts) {
        return parts.get(WITH_CRC);
    }

    @Override
    public Map<String, Object> details(Map<String, Double> parts, double median) throws Exception {
        Map<String, Object> details = new LinkedHashMap<>(parts);
        details.put("bytes allocated for each call by the binding alone", bindingBytesACall());
        details.put("gain without CRC", parts.get(OURS_WITHOUT_CRC) / median - 1);
        return details;
    }

    /** A mount whose calls do nothing shows what jnr-fuse and libfuse's structures cost for each call. */
    private double bindingBytesACall() throws Exception {
        String template = bindingMount + "/image-%d";
        Clients.run(options, "write", options.bytesAWriter, template);
        Nodes nodes = new Nodes(List.of(binding));
        Span span = Clients.run(options, "write", options.bytesAWriter, template);
        return nodes.run(span, options.allBytes() / StageOptions.BLOCK_BYTES).allocatedBytesPerChunk();
    }

    @Override
    public void close() throws IOException {
        bed.close();
    }
}
