package io.ppmr.linux;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

@Timeout(value = 60, unit = TimeUnit.SECONDS)
class FoldersTest {
    @TempDir
    Path folder;

    private static String mode(Path path) throws IOException {
        return PosixFilePermissions.toString(Files.getPosixFilePermissions(path));
    }

    @Test
    void shouldSetTheModeOfTheFolderAndAPassableOneOfItsParents() throws IOException {
        Folders.create(folder.resolve("a/b/c"), "rwx--x--x");
        assertEquals("rwx--x--x", mode(folder.resolve("a/b/c")));
        assertEquals(Folders.PASSABLE, mode(folder.resolve("a/b")));
        assertEquals(Folders.PASSABLE, mode(folder.resolve("a")));
    }

    @Test
    void shouldLeaveTheModeOfAFolderThatExists() throws IOException {
        Path there = Files.createDirectory(folder.resolve("there"));
        Files.setPosixFilePermissions(there, PosixFilePermissions.fromString("rwxrwx---"));
        Folders.create(there.resolve("below"), Folders.PRIVATE);
        Folders.create(there, Folders.PASSABLE);
        assertEquals("rwxrwx---", mode(there));
        assertEquals(Folders.PRIVATE, mode(there.resolve("below")));
    }

    @Test
    void shouldAcceptALinkToAFolder() throws IOException {
        Path real = Files.createDirectory(folder.resolve("real"));
        Files.createSymbolicLink(folder.resolve("link"), real);
        Folders.create(folder.resolve("link/below"), Folders.PRIVATE);
        assertEquals(Folders.PRIVATE, mode(real.resolve("below")));
    }

    @Test
    void shouldThrowWhenAFileHasTheName() throws IOException {
        Path file = Files.createFile(folder.resolve("file"));
        assertThrows(FileAlreadyExistsException.class, () -> Folders.create(file, Folders.PASSABLE));
    }
}
