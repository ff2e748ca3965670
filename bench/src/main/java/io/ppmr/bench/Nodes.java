package io.ppmr.bench;

import java.io.IOException;
import java.util.List;

/** Reads what a run cost the measured processes: made before it, asked after it. */
final class Nodes {
    private final List<NodeProcess> nodes;
    private final double cpuBefore;
    private final long allocatedBefore;

    Nodes(List<NodeProcess> nodes) throws BenchFailure, IOException {
        this.nodes = nodes;
        this.allocatedBefore = allocatedBytes();
        this.cpuBefore = cpuSeconds();
    }

    Run run(Span span, long chunks) throws BenchFailure, IOException {
        double cpu = cpuSeconds() - cpuBefore;
        double allocated = (double) (allocatedBytes() - allocatedBefore) / chunks;
        long rss = 0;
        for (NodeProcess node : nodes) {
            rss = Math.max(rss, node.peakRssBytes());
        }
        return Run.of(span, cpu, rss, allocated);
    }

    private double cpuSeconds() throws IOException {
        double sum = 0;
        for (NodeProcess node : nodes) {
            sum += node.cpuSeconds();
        }
        return sum;
    }

    private long allocatedBytes() throws BenchFailure, IOException {
        long sum = 0;
        for (NodeProcess node : nodes) {
            sum += node.allocatedBytes();
        }
        return sum;
    }
}
