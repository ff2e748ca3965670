package io.ppmr.migration.keep;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.migration.RequestException;
import io.ppmr.transport.auth.PreSharedKey;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Set;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ImageCopyTest {
    private static final String SET = "1-1-00000000";
    private static final String POD = "p1";
    private static final PreSharedKey KEY = new PreSharedKey(new byte[32]);
    /** More than a copy's buffer. */
    private static final int BYTES = 700_001;

    @TempDir
    private Path folder;

    private SetDirectory near;
    private SetDirectory far;
    private long copiedBytes;
    private final ImageCopy copy = new ImageCopy(bytes -> copiedBytes += bytes);

    @BeforeEach
    void write() throws Exception {
        near = new SetDirectory(privateDirectory("near"), 1000, "ring");
        far = new SetDirectory(privateDirectory("far"), 1000, "ring");
        Path partial = near.begin(SET, POD);
        Files.createDirectory(partial.resolve("rank-0"));
        Files.write(partial.resolve("rank-0/pages-1.img"), new byte[BYTES]);
        Files.createSymbolicLink(partial.resolve("rank-0/parent"), Path.of("../other"));
        near.end(SET, POD, SetDirectoryTest.manifest(POD), KEY, () -> false);
    }

    private Path privateDirectory(String name) throws IOException {
        return Files.createDirectory(
                folder.resolve(name),
                PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
    }

    private Path pages(SetDirectory of) {
        return of.image(SET, POD).resolve("rank-0/pages-1.img");
    }

    @Test
    void shouldBeAWholeImageWhenItIsCopied() throws Exception {
        assertEquals(near.digest(SET, POD), copy.copy(near, far, SET, POD));
        assertTrue(copiedBytes > BYTES, "all bytes pass the pace");
        KeptImages copied = KeptImages.open(far.image(SET, POD));
        copied.requireSealed(KEY, false);
        copied.requireWhole();
        assertEquals(KeptImages.open(near.image(SET, POD)).manifest(), copied.manifest());
    }

    @Test
    void shouldCopyNothingWhenTheImageIsThere() throws Exception {
        copy.copy(near, far, SET, POD);
        copiedBytes = 0;
        assertEquals(near.digest(SET, POD), copy.copy(near, far, SET, POD));
        assertEquals(0, copiedBytes);
    }

    @Test
    void shouldReplaceAnImageOfAnotherManifest() throws Exception {
        copy.copy(near, far, SET, POD);
        Files.writeString(far.image(SET, POD).resolve(ImageManifest.FILE_NAME), "another");
        assertEquals(near.digest(SET, POD), copy.copy(near, far, SET, POD));
        KeptImages.open(far.image(SET, POD)).requireWhole();
    }

    @Test
    void shouldRefuseADamagedImageAndLeaveNothing() throws Exception {
        byte[] bytes = Files.readAllBytes(pages(near));
        bytes[BYTES / 2] ^= 1;
        Files.write(pages(near), bytes);
        IOException damaged = assertThrows(IOException.class, () -> copy.copy(near, far, SET, POD));
        assertTrue(damaged.getMessage().contains("pages-1.img is damaged"), damaged.getMessage());
        assertEquals(Set.of(), far.pods(SET));
        assertFalse(Files.exists(far.partial(SET, POD)));
    }

    @Test
    void shouldRefuseADirectoryInWhichOthersCanWrite() throws Exception {
        Files.setPosixFilePermissions(far.directory(), PosixFilePermissions.fromString("rwxrwxrwx"));
        assertThrows(RequestException.class, () -> copy.copy(near, far, SET, POD));
    }

    @Test
    void shouldFollowNoLinkInPlaceOfAFile() throws Exception {
        Path secret = Files.write(folder.resolve("secret"), new byte[BYTES]);
        Files.delete(pages(near));
        Files.createSymbolicLink(pages(near), secret);
        assertThrows(IOException.class, () -> copy.copy(near, far, SET, POD));
        assertEquals(Set.of(), far.pods(SET));
    }

    @Test
    void shouldLeaveNothingWhenTheCopyIsCalledOff() {
        ImageCopy ended = new ImageCopy(bytes -> {
            throw new IOException("called off");
        });
        assertThrows(IOException.class, () -> ended.copy(near, far, SET, POD));
        assertFalse(Files.exists(far.partial(SET, POD)));
    }
}
