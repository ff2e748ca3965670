package io.ppmr.cluster;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.cluster.zookeeper.ServiceSession.Credentials;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The note of a service about its cluster. */
class ClusterNoteTest {
    @TempDir
    private Path journal;

    @Test
    void shouldReadWhatItWroteAndBeReadableByItsOwnerAlone() throws Exception {
        assertEquals(Optional.empty(), ClusterNote.read(journal));
        ClusterNote note = new ClusterNote("id-1", Optional.of(new Credentials(-5, "00ff")));
        note.write(journal);
        assertEquals(Optional.of(note), ClusterNote.read(journal));
        assertEquals(
                "rw-------", PosixFilePermissions.toString(Files.getPosixFilePermissions(journal.resolve("cluster"))));
        ClusterNote without = new ClusterNote("id-1", Optional.empty());
        without.write(journal);
        assertEquals(Optional.of(without), ClusterNote.read(journal));
    }

    @Test
    void shouldNameTheFileWhenItIsDamaged() throws Exception {
        Files.writeString(journal.resolve("cluster"), "id\nnot a number\n00\n");
        IOException damaged = assertThrows(IOException.class, () -> ClusterNote.read(journal));
        assertTrue(damaged.getMessage().contains("is damaged. Remedy: remove it"), damaged.getMessage());
    }
}
