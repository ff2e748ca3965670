package io.ppmr.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class FailedLogsTest {
    private static final int MIB = 1 << 20;

    @TempDir
    private Path work;

    private Path keep(String attempt, byte[] content, long second) throws IOException {
        Path own = Files.createDirectories(work.resolve(attempt).resolve("rank-0/own"));
        Path log = Files.write(own.resolve("criu-dump-0.log"), content);
        Path kept = FailedLogs.keep(log, own.getParent());
        Files.setLastModifiedTime(kept, FileTime.fromMillis(second * 1000));
        return kept;
    }

    private List<Path> kept() throws IOException {
        try (Stream<Path> all = Files.list(work.resolve(".failed"))) {
            return all.toList();
        }
    }

    @Test
    void shouldKeepALogWhenTheFolderOfItsAttemptIsRemoved() throws Exception {
        Path kept = keep("a1.1", "why".getBytes(StandardCharsets.UTF_8), 1);
        WorkDirectories.remove(work.resolve("a1.1"));
        assertEquals("why", Files.readString(kept));
        assertEquals(
                "rwx------", PosixFilePermissions.toString(Files.getPosixFilePermissions(work.resolve(".failed"))));
        WorkDirectories.removeEnded(work, (id, attempt) -> true);
        assertTrue(Files.exists(kept), "the next start of the service takes it for no attempt");
    }

    @Test
    void shouldKeepTheLogsOfTheLastTenAttempts() throws Exception {
        for (int attempt = 1; attempt <= 13; attempt++) {
            keep("m" + attempt + ".1", "why".getBytes(StandardCharsets.UTF_8), attempt);
        }
        assertEquals(10, kept().size());
        assertFalse(Files.exists(work.resolve(".failed/m3.1.rank-0.criu-dump-0.log")));
        assertTrue(Files.exists(work.resolve(".failed/m4.1.rank-0.criu-dump-0.log")));
    }

    /** A job decides how much CRIU writes. */
    @Test
    void shouldKeepTheEndOfALongLog() throws Exception {
        byte[] content = new byte[3 * MIB];
        content[content.length - 1] = 'e';
        Path kept = keep("long.1", content, 1);
        assertEquals(MIB, Files.size(kept));
        assertTrue(Files.readString(kept).endsWith("e"));
    }
}
