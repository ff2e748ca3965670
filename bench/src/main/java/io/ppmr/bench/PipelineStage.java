package io.ppmr.bench;

import java.io.IOException;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** FUSE writes to chunks in the target's pool (Fig. 8b, 8c), beside what its two stages can do in C. */
final class PipelineStage implements Stage {
    private static final String A = "A";
    private static final String B = "B";
    private static final String OTHER_POOL = "ours with the other pool";

    private final StageOptions options;
    private final long otherPoolBytes;
    private final Bed bed = new Bed();
    private final Pair pair;
    private final Pair other;
    private final LimitFilesystem filesystem;

    /** {@code otherPoolBytes}: a second pool size to be measured in turn, 0 for none. */
    PipelineStage(StageOptions options, long otherPoolBytes) throws Exception {
        this.options = options;
        this.otherPoolBytes = otherPoolBytes;
        pair = new Pair(bed, options, "source", options.poolBytes, "");
        other = otherPoolBytes == 0 ? null : new Pair(bed, options, "source", otherPoolBytes, "-other");
        filesystem = bed.limit("limit", options, false, false);
    }

    @Override
    public List<String> parts() {
        return other == null ? List.of(A, B) : List.of(A, B, OTHER_POOL);
    }

    @Override
    public double part(String name) throws Exception {
        return switch (name) {
            case A -> filesystem.write(options).mibPerSecond();
            case B -> options.carrier().limitMibPerSecond(options);
            default -> other.write().mibPerSecond();
        };
    }

    @Override
    public Run run() throws Exception {
        return pair.write();
    }

    @Override
    public String limitName() {
        return "1/(1/A+1/B), B: " + options.carrier().limitName();
    }

    @Override
    public double limit(Map<String, Double> parts) {
        return Figures.inSeries(parts.get(A), parts.get(B));
    }

    @Override
    public Map<String, Object> details(Map<String, Double> parts, double median) {
        Map<String, Object> details = new LinkedHashMap<>(parts);
        double apart = Math.min(parts.get(A), parts.get(B));
        details.put("min(A,B)", apart);
        details.put("ratio to min(A,B)", median / apart);
        if (other != null) {
            details.put("other pool, bytes", otherPoolBytes);
            details.put("ratio to the other pool", median / parts.get(OTHER_POOL));
        }
        return details;
    }

    @Override
    public void close() throws IOException {
        bed.close();
    }
}
