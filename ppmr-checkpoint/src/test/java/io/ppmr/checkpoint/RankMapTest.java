package io.ppmr.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.os.Command;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Tests what a hook's environment says of where the ranks are. */
class RankMapTest {
    @TempDir
    private Path directory;

    private static RankMap of(int ranks) {
        Map<Integer, String> nodes = new TreeMap<>();
        for (int rank = 0; rank < ranks; rank++) {
            nodes.put(rank, "node-" + rank / 2 + ".cluster.example");
        }
        return new RankMap(nodes);
    }

    @Test
    void shouldSayWhichRanksShareANode() throws Exception {
        assertEquals(
                "node-0.cluster.example:0,1 node-1.cluster.example:2",
                of(3).write(directory).get("PPMR_SHARED"));
    }

    @Test
    void shouldLetAHookOfTenThousandRanksBeStarted() throws Exception {
        Map<String, String> said = of(10_000).write(directory);
        assertEquals(10_000, Files.readAllLines(Path.of(said.get("PPMR_MAP"))).size());
        Command hook = Command.of(List.of("/bin/sh", "-c", "wc -l < \"$PPMR_MAP\""));
        said.forEach(hook::with);
        assertEquals("10000", hook.run(Duration.ofSeconds(20)).requireOutput());
        assertTrue(!said.containsKey("PPMR_SHARED"), "longer than the kernel takes");
    }
}
