package io.ppmr.migration.node;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.ProcessTable;
import io.ppmr.protocol.control.JobFacts;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;

class JobProbeTest {
    @Test
    void shouldTellMemoryPidsAndFilesOfAProcess() throws Exception {
        Process process = new ProcessBuilder("sleep", "60").start();
        try {
            ProcessTable table = new ProcessTable();
            JobFacts facts = new JobProbe(table).facts("criu", List.of(table.of((int) process.pid())));
            assertEquals("criu", facts.checkpointer());
            assertEquals(List.of((int) process.pid()), facts.pids());
            assertTrue(facts.residentBytes() > 0, facts.toString());
            for (JobFacts.MappedFile file : facts.files()) {
                assertEquals(Files.size(Path.of(file.path())), file.lengthBytes(), file.path());
            }
            assertTrue(facts.files().stream().anyMatch(file -> file.path().contains("libc")), facts.toString());
        } finally {
            process.destroyForcibly();
        }
    }
}
