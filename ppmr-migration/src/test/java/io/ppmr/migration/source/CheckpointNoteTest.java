package io.ppmr.migration.source;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.linux.ProcessIdentity;
import io.ppmr.migration.source.CheckpointNote.HeldMember;
import io.ppmr.migration.source.CheckpointNote.ImagePlace;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class CheckpointNoteTest {
    @TempDir
    private Path journal;

    private static CheckpointNote note() {
        ProcessIdentity root = new ProcessIdentity("boot", 7, 1, 100);
        ProcessIdentity child = new ProcessIdentity("boot", 7, 2, 200);
        return new CheckpointNote(
                "checkpoint-1",
                "1-1-00000000",
                new ImagePlace("/ckpt of all", 1000, "ring"),
                Map.of(
                        0,
                        new HeldMember("p0", List.of(root, child), List.of(child)),
                        1,
                        new HeldMember("p1", List.of(root), List.of())));
    }

    @Test
    void shouldBeReadAsItWasWritten() throws IOException {
        note().write(journal);
        assertEquals(List.of(note()), CheckpointNote.left(journal));
        note().forget(journal);
        assertEquals(List.of(), CheckpointNote.left(journal));
    }

    /** A later migration may hold the pods, so they are continued once. */
    @Test
    void shouldNameNoProcessWhenThePodsWereContinued() throws IOException {
        note().write(journal);
        assertEquals(List.of("ring"), JobCheckpoint.heldIn(journal));
        note().continued().write(journal);
        CheckpointNote left = CheckpointNote.left(journal).get(0);
        assertTrue(left.isContinued());
        assertEquals(note().pods().keySet(), left.pods().keySet());
        assertEquals(List.of(), JobCheckpoint.heldIn(journal));
    }

    @Test
    void shouldCountForNothingWhenItWasNotWrittenToItsEnd() throws IOException {
        note().write(journal);
        Path file = journal.resolve("checkpoints/checkpoint-1");
        Files.move(file, file.resolveSibling("checkpoint-1.part"));
        assertEquals(List.of(), CheckpointNote.left(journal));
    }

    @Test
    void shouldBeAnErrorWithARemedyWhenItIsDamaged() throws IOException {
        note().write(journal);
        Path file = journal.resolve("checkpoints/checkpoint-1");
        String text = Files.readString(file);
        for (String damaged : List.of("", "x", text.replace("pod", "p"), text.replace("images", "image"))) {
            Files.writeString(file, damaged);
            IOException refused = assertThrows(IOException.class, () -> CheckpointNote.read(file));
            assertTrue(refused.getMessage().contains("Remedy"), refused.getMessage());
            assertEquals(List.of(), CheckpointNote.left(journal), "others are read all the same");
        }
    }
}
