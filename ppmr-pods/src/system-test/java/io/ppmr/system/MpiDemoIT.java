package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import io.ppmr.pods.testbed.MpiRing;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** The demo of MPI jobs in pods, as a user runs it. */
@Tag("soak")
@Timeout(value = 400, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class MpiDemoIT {
    @TempDir
    private Path directory;

    @Test
    void shouldGoOnWhenAPodOfAnMpiJobMovesWithItsConnections() throws Exception {
        MovingNode.assumePossible();
        Assumptions.assumeTrue(MpiRing.whyNot("openmpi").isEmpty(), "needs Open MPI (./ppmr demo installs it)");
        JsonNode migration = DemoIT.migration(directory, "mpi");
        assertTrue(migration.get("longestGapSeconds").asDouble() > 0, migration::toPrettyString);
    }
}
