package io.ppmr.bench;

import java.io.IOException;
import java.util.List;
import java.util.Map;

/** Writing, pulling and reading at once, beside what the three stages can do in C. */
final class WholeStage implements Stage {
    private static final String A = "A";
    private static final String B = "B";
    private static final String R = "R";

    private final StageOptions options;
    private final Bed bed = new Bed();
    private final Pair pair;
    private final LimitFilesystem written;
    private final LimitFilesystem read;

    WholeStage(StageOptions options) throws Exception {
        this.options = options;
        pair = new Pair(bed, options, "source", options.poolBytes, "");
        written = bed.limit("limit-a", options, false, false);
        read = bed.limit("limit-r", options, false, true);
        read.write(options);
    }

    @Override
    public List<String> parts() {
        return List.of(A, B, R);
    }

    @Override
    public double part(String name) throws Exception {
        return switch (name) {
            case A -> written.write(options).mibPerSecond();
            case B -> options.carrier().limitMibPerSecond(options);
            default -> read.read(options).mibPerSecond();
        };
    }

    @Override
    public Run run() throws Exception {
        return pair.writeAndRead();
    }

    @Override
    public String limitName() {
        return "1/(1/A+1/B+1/R), B: " + options.carrier().limitName();
    }

    @Override
    public double limit(Map<String, Double> parts) {
        return Figures.inSeries(parts.get(A), parts.get(B), parts.get(R));
    }

    @Override
    public void close() throws IOException {
        bed.close();
    }
}
