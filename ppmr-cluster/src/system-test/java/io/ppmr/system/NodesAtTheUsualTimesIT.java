package io.ppmr.system;

import java.time.Duration;
import org.junit.jupiter.api.Tag;

/** The same with the usual times of a cluster, and a controller that is frozen for a minute. */
@Tag("soak")
class NodesAtTheUsualTimesIT extends NodesIT {
    @Override
    Times times() {
        return new Times(Duration.ofSeconds(2), Duration.ofSeconds(20), Duration.ofMinutes(1));
    }
}
