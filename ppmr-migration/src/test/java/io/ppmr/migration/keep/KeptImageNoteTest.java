package io.ppmr.migration.keep;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class KeptImageNoteTest {
    private static final String ID = "a-b_1";

    @TempDir
    private Path directory;

    private Path work;
    private Path copies;

    @BeforeEach
    void make() throws IOException {
        work = Files.createDirectory(directory.resolve("work"));
        copies = Files.createDirectory(directory.resolve("copies"));
        // Another file in the work directory.
        Files.createDirectories(work.resolve(ID + ".2/rank-0"));
        Files.createDirectory(work.resolve("hooks-" + ID));
    }

    private static Path incomplete(Path partial) throws IOException {
        Files.createDirectories(partial.resolve("data"));
        Files.writeString(partial.resolve("data/1"), "half");
        return partial;
    }

    private KeptImageNote onlyLeft() throws IOException {
        List<KeptImageNote> left = KeptImageNote.left(work);
        assertEquals(1, left.size());
        assertEquals(ID, left.get(0).migrationId());
        return left.get(0);
    }

    @Test
    void shouldRemoveTheNotedCopyAndNothingElseWhenTheServiceHasDied() throws IOException {
        Path partial = incomplete(copies.resolve("job-1.2.partial"));
        Path other = incomplete(copies.resolve("job-2.1.partial"));
        KeptImageNote.of(work, ID, 2).write(partial);
        onlyLeft().removeCopy();
        assertFalse(Files.exists(partial));
        assertTrue(Files.exists(other.resolve("data/1")));
        assertEquals(List.of(), KeptImageNote.left(work));
    }

    @Test
    void shouldForgetWhenTheCopyHasItsNameOrWasNotBegun() throws IOException {
        Path whole = incomplete(copies.resolve("job-1.2"));
        KeptImageNote.of(work, ID, 2).write(copies.resolve("job-1.2.partial"));
        onlyLeft().removeCopy();
        assertTrue(Files.exists(whole.resolve("data/1")));
        assertEquals(List.of(), KeptImageNote.left(work));
        Files.writeString(work.resolve("keep-" + ID + ".1"), copies + "/job-1.1.par");
        onlyLeft().removeCopy();
        assertEquals(List.of(), KeptImageNote.left(work));
    }

    @Test
    void shouldKeepTheNoteWhenItsDiskIsNotThere() throws IOException {
        KeptImageNote.of(work, ID, 2).write(directory.resolve("unmounted/job-1.2.partial"));
        onlyLeft().removeCopy();
        onlyLeft();
    }

    @Test
    void shouldRemoveNothingWhenTheNoteNamesNoIncompleteCopyOrALink() throws IOException {
        Path whole = incomplete(copies.resolve("job-1.2"));
        KeptImageNote.of(work, ID, 2).write(whole);
        onlyLeft().removeCopy();
        assertTrue(Files.exists(whole.resolve("data/1")));
        Files.createSymbolicLink(copies.resolve("job-1.2.partial"), whole);
        KeptImageNote.of(work, ID, 2).write(copies.resolve("job-1.2.partial"));
        onlyLeft().removeCopy();
        assertTrue(Files.exists(whole.resolve("data/1")));
    }
}
