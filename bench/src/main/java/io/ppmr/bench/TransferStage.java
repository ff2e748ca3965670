package io.ppmr.bench;

import java.io.IOException;
import java.util.List;
import java.util.Map;

/** Pool to pool (Fig. 8a), beside a sender and a receiver in C. */
final class TransferStage implements Stage {
    private static final String B = "B";
    private static final String B_WITHOUT_CRC = "B without CRC";

    private final Bed bed = new Bed();
    private final Pair pair;
    private final Limits limits;

    TransferStage(StageOptions options) throws Exception {
        pair = new Pair(bed, options, "offer", options.poolBytes, "");
        limits = new Limits(options);
    }

    @Override
    public List<String> parts() {
        return List.of(B, B_WITHOUT_CRC);
    }

    @Override
    public double part(String name) throws Exception {
        return limits.net(name.equals(B)).mibPerSecond();
    }

    @Override
    public Run run() throws Exception {
        return pair.offer();
    }

    @Override
    public String limitName() {
        return "sender and receiver in C with CRC32C at both ends";
    }

    @Override
    public double limit(Map<String, Double> parts) {
        return parts.get(B);
    }

    @Override
    public void close() throws IOException {
        bed.close();
    }
}
