package io.ppmr.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.linux.Command;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Tests the ranks' places in a hook's environment. */
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
        Map<String, String> printed = of(10_000).write(directory);
        assertEquals(
                10_000, Files.readAllLines(Path.of(printed.get("PPMR_MAP"))).size());
        Command hook = Command.of(List.of("/bin/sh", "-c", "wc -l < \"$PPMR_MAP\""));
        printed.forEach(hook::with);
        assertEquals("10000", hook.run(Duration.ofSeconds(20)).requireOutput());
        assertTrue(!printed.containsKey("PPMR_SHARED"), "longer than the kernel takes");
    }
}
