package io.ppmr.bench;

import java.io.IOException;
import java.util.List;
import java.util.Map;

/** Pool to pool (Fig. 8a), beside a sender and a receiver in C, or with RDMA beside ib_read_bw(1). */
final class TransferStage implements Stage {
    private static final String B = "B";
    private static final String B_WITHOUT_CRC = "B without CRC";
    private static final String IPERF = "iperf3";

    private final Bed bed = new Bed();
    private final Pair pair;
    private final StageOptions options;

    TransferStage(StageOptions options) throws Exception {
        pair = new Pair(bed, options, "offer", options.poolBytes, "");
        this.options = options;
    }

    @Override
    public List<String> parts() {
        // ib_read_bw takes no CRC to begin with.
        if (options.transport.equals(StageOptions.RDMA)) {
            return List.of(B);
        }
        return Iperf.present() ? List.of(B, B_WITHOUT_CRC, IPERF) : List.of(B, B_WITHOUT_CRC);
    }

    @Override
    public double part(String name) throws Exception {
        return switch (name) {
            case B -> options.carrier().limitMibPerSecond(options);
            case IPERF -> Iperf.mibPerSecond(options.connections);
            default -> new Limits(options).net(false).mibPerSecond();
        };
    }

    @Override
    public Run run() throws Exception {
        return pair.offer();
    }

    @Override
    public String limitName() {
        return options.carrier().limitName();
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
