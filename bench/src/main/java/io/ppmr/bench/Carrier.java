package io.ppmr.bench;

import java.io.IOException;
import java.util.List;
import java.util.Map;

/** What chunks cross on from a benchmark's source to its target, and B: what that can carry at most. */
interface Carrier {
    /** For the result. */
    String device();

    /** For the result, beside the transport's name. */
    Map<String, Object> settings(StageOptions options);

    /** What the target is told when it is started: the transport and the address at which it listens. */
    List<String> targetWords();

    /** Whose figure B is. */
    String limitName();

    /** B, measured now. */
    double limitMibPerSecond(StageOptions options) throws BenchFailure, IOException, InterruptedException;
}
