package io.ppmr.migration.source;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.HeldRank;
import io.ppmr.checkpoint.KeptNames;
import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.checkpoint.Polling;
import io.ppmr.checkpoint.ProcessTable;
import io.ppmr.linux.ProcessIdentity;
import io.ppmr.migration.RankSurroundings;
import io.ppmr.transaction.journal.PlannedRank;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** All originals of an empty list are held, and all are gone. Neither may lead to a decision. */
@Timeout(60)
class OriginalRanksTest {
    private static final Duration LIMIT = Duration.ofSeconds(10L * Integer.getInteger("ppmr.patience", 1));

    @TempDir
    private Path workDirectory;

    private final ProcessTable table = new ProcessTable();

    private OriginalRanks recorded(Path directory, List<PlannedRank> ranks) {
        return OriginalRanks.recorded(
                "m-1",
                table,
                RankSurroundings.NONE,
                new KeptNames(directory, "m-1", new NativePrograms(directory)),
                directory,
                ranks,
                List.of());
    }

    @Test
    void shouldNeitherCountAsAliveNorAsEndedWhenNoOriginalIsKnown() {
        OriginalRanks none = recorded(workDirectory, List.of());
        assertEquals("no original of migration m-1 is known", none.whyNotAlive());
        assertNotNull(none.end(), "nothing was ended");
    }

    @Test
    void shouldNotCountAsEndedWhenItsProcessesWereLetGo() throws Exception {
        Process shell = new ProcessBuilder("/bin/sleep", "60").start();
        try {
            ProcessIdentity root = table.of((int) shell.pid());
            OriginalRanks ranks = recorded(workDirectory, List.of(new PlannedRank(3, "a:7", List.of(root))));
            assertTrue(ranks.release());
            String left = ranks.end();
            assertNotNull(left, "it lives, and is no longer held");
            assertTrue(left.contains("ranks [3]"), left);
            assertTrue(table.isAlive(root));
            ranks.held(new HeldRank(3, List.of(root), List.of()));
            assertNull(ranks.end());
            assertTrue(Polling.until(LIMIT, () -> !table.isAlive(root)));
        } finally {
            shell.destroyForcibly();
            assertTrue(shell.waitFor(10, TimeUnit.SECONDS));
        }
    }

    @Test
    void shouldTouchNoOriginalWhenItIsNotKnownWhatStillCheckpointsIt() throws Exception {
        // Listing this file as a directory fails like an unreadable directory.
        Path unreadable = Files.createFile(workDirectory.resolve("work"));
        OriginalRanks ranks = recorded(unreadable, List.of());
        assertFalse(ranks.endOrphanedCheckpoints());
        Files.delete(unreadable);
        Files.createDirectory(unreadable);
        assertTrue(ranks.endOrphanedCheckpoints(), "it is looked at again");
    }

    @Test
    void shouldRefuseAPlanWhenItHasNoTargetOrATargetHasNoRank() {
        InetSocketAddress target = InetSocketAddress.createUnresolved("a", 7);
        assertThrows(IllegalArgumentException.class, () -> MigrationPlan.spread(List.of(), List.of(target)));
        assertThrows(IllegalArgumentException.class, () -> MigrationPlan.spread(List.of(1), List.of()));
        assertThrows(IllegalArgumentException.class, () -> new MigrationPlan.Leg(target, List.of()));
    }
}
