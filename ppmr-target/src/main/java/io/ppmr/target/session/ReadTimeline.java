package io.ppmr.target.session;

import io.ppmr.protocol.data.TransferReport.ReadSample;
import java.util.ArrayList;
import java.util.List;

/**
 * Records the number of read bytes over time, in a bounded number of samples. When there are too many, every second one
 * is removed and the interval is doubled. Owned by the session's agent.
 */
final class ReadTimeline {
    private static final int MAX_SAMPLES = 2048;
    private static final long FIRST_PACE_NS = 1_000_000;

    private final long[] timesNs = new long[MAX_SAMPLES];
    private final long[] readBytes = new long[MAX_SAMPLES];
    private int count;
    private long paceNs = FIRST_PACE_NS;
    private long firstReadNs;

    void sample(long nowNs, long bytes) {
        if (bytes == 0 || (count > 0 && (bytes == readBytes[count - 1] || nowNs - timesNs[count - 1] < paceNs))) {
            return;
        }
        if (count == 0) {
            firstReadNs = nowNs;
        }
        if (count == MAX_SAMPLES) {
            thinOut();
        }
        timesNs[count] = nowNs;
        readBytes[count] = bytes;
        count++;
    }

    long firstReadNs() {
        return firstReadNs;
    }

    List<ReadSample> samples() {
        List<ReadSample> samples = new ArrayList<>(count);
        for (int i = 0; i < count; i++) {
            samples.add(new ReadSample(timesNs[i], readBytes[i]));
        }
        return samples;
    }

    private void thinOut() {
        int kept = 0;
        for (int i = 0; i < count; i += 2) {
            timesNs[kept] = timesNs[i];
            readBytes[kept] = readBytes[i];
            kept++;
        }
        count = kept;
        paceNs *= 2;
    }
}
