package io.ppmr.migration.node;

import io.ppmr.protocol.control.NodeFacts;
import java.util.List;
import java.util.function.IntSupplier;

/**
 * Reads the figures of a node by which a cluster compares it with others. Probes checkpointers only the first time,
 * because that starts processes; each later call reads two files of proc(5). Safe for any thread.
 */
public final class NodeGauge {
    private static final double HUNDREDTHS = 100;

    private final NodeProbe probe;
    private final IntSupplier places;
    private NodeFacts first;

    /** @param places the number of migrations that the service can take now */
    public NodeGauge(NodeProbe probe, IntSupplier places) {
        this.probe = probe;
        this.places = places;
    }

    /**
     * The figures of a node.
     *
     * @param host its host name
     * @param memoryBytes memory that is available to processes
     * @param stagingBytes the staging space for images
     * @param places the migrations that it can take now
     * @param load the load of one minute for each processor, in hundredths
     * @param tools the usable checkpointers
     * @param unusable the number of checkpointers that cannot be used
     * @param cpuFeatures the usable instruction sets
     */
    public record NodeFigures(
            String host,
            long memoryBytes,
            long stagingBytes,
            int places,
            int load,
            List<String> tools,
            int unusable,
            List<String> cpuFeatures) {
        public NodeFigures {
            tools = List.copyOf(tools);
            cpuFeatures = List.copyOf(cpuFeatures);
        }
    }

    /** Returns the present figures. The first call may take some seconds. */
    public synchronized NodeFigures figures() {
        if (first == null) {
            first = probe.facts();
        }
        List<String> usable = first.tools().stream()
                .filter(NodeFacts.Tool::available)
                .map(NodeFacts.Tool::name)
                .toList();
        return new NodeFigures(
                first.hostName(),
                probe.availableBytes(),
                first.stagingBytes(),
                places.getAsInt(),
                load(),
                usable,
                first.tools().size() - usable.size(),
                first.cpuFeatures());
    }

    /** Returns the load of proc_loadavg(5) for each processor that this process may use. */
    private int load() {
        String minute = probe.line("proc/loadavg").orElse("0").split(" ", 2)[0];
        try {
            return (int) Math.round(HUNDREDTHS
                    * Double.parseDouble(minute)
                    / Runtime.getRuntime().availableProcessors());
        } catch (NumberFormatException e) {
            return 0;
        }
    }
}
