package io.ppmr.migration.node;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.CheckpointException;
import io.ppmr.checkpoint.Polling;
import io.ppmr.checkpoint.ProcessTable;
import io.ppmr.linux.ProcessIdentity;
import io.ppmr.protocol.control.JobFacts;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class JobProbeTest {
    @Test
    void shouldTellMemoryAndPidsOfAProcess() throws Exception {
        Process process = new ProcessBuilder("sleep", "60").start();
        try {
            ProcessTable table = new ProcessTable();
            JobFacts facts = new JobProbe(table, new Preparation(() -> false))
                    .facts("criu", List.of(table.of((int) process.pid())));
            assertEquals("criu", facts.checkpointer());
            assertEquals(List.of((int) process.pid()), facts.pids());
            assertTrue(facts.residentBytes() > 0, facts.toString());
        } finally {
            process.destroyForcibly();
        }
    }

    /** One file is on a disk, one in memory. A process that has the same one open adds nothing. */
    @Test
    void shouldCountFilesWithoutANameThatAreOpenOnce(@TempDir Path folder) throws Exception {
        String script = "exec 3>\"$1/unnamed\"; rm \"$1/unnamed\"; head -c 8388608 /dev/zero >&3; f=/dev/shm/ppmr-$$;"
                + " exec 4>$f; rm $f; head -c 4194304 /dev/zero >&4; sleep 60 & echo >\"$1/ready\"; wait";
        Process process = new ProcessBuilder("sh", "-c", script, "sh", folder.toString()).start();
        try {
            assertTrue(Polling.until(Duration.ofSeconds(30), () -> Files.exists(folder.resolve("ready"))), "it runs");
            ProcessTable table = new ProcessTable();
            ProcessIdentity root = table.of((int) process.pid());
            long residentBytes = 0;
            for (ProcessIdentity one : table.tree(root)) {
                residentBytes += JobProbe.residentBytes(Path.of("/proc", "" + one.pid()));
            }
            JobFacts facts = new JobProbe(table, new Preparation(() -> false)).facts("criu", List.of(root));
            long unnamedBytes = facts.residentBytes() - residentBytes;
            assertTrue(unnamedBytes > 12_000_000 && unnamedBytes < 14_000_000, unnamedBytes + " bytes");
        } finally {
            process.descendants().forEach(ProcessHandle::destroyForcibly);
            process.destroyForcibly().waitFor();
        }
    }

    /** The facts concern one process and its descendants. Each of them is inspected alone. */
    @Test
    void shouldLookNoFurtherWhenItIsCalledOffOrTheTimeIsOver() throws Exception {
        Process process = new ProcessBuilder("sleep", "60").start();
        try {
            ProcessTable table = new ProcessTable();
            List<ProcessIdentity> roots = List.of(table.of((int) process.pid()));
            JobProbe calledOff = new JobProbe(table, new Preparation(() -> true));
            CheckpointException e = assertThrows(CheckpointException.class, () -> calledOff.facts("criu", roots));
            assertTrue(e.getMessage().contains("called off"), e.getMessage());
            JobProbe late = new JobProbe(table, new Preparation(() -> false, Duration.ofNanos(-1)));
            e = assertThrows(CheckpointException.class, () -> late.facts("criu", roots));
            assertTrue(e.getMessage().contains("took longer than"), e.getMessage());
            Preparation over = new Preparation(() -> true);
            assertThrows(CheckpointException.class, () -> MemoryShape.of(roots, 1, over));
        } finally {
            process.destroyForcibly();
        }
    }
}
