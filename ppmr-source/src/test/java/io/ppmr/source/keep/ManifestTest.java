package io.ppmr.source.keep;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.JobUser;
import io.ppmr.checkpoint.ProcessIdentity;
import io.ppmr.source.image.ImageName.Kind;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ManifestTest {
    private static final Manifest ONE = new Manifest(
            "0.1.0",
            "a job",
            "criu",
            new JobUser(7, 8),
            "m-1",
            2,
            1_700_000_000_000L,
            "node-a",
            Map.of(
                    0, List.of(new ProcessIdentity("boot", 4026531836L, 12, 345)),
                    3, List.of(new ProcessIdentity("boot", 5, 6, 7), new ProcessIdentity("boot", 5, 8, 9))),
            List.of(
                    new Manifest.Entry(Kind.DIRECTORY, "rank-0", 0, 0, ""),
                    new Manifest.Entry(Kind.FILE, "rank-0/a b\nc%ü", 1L << 40, 0xFEDCBA98, ""),
                    new Manifest.Entry(Kind.FILE, "rank-0/plain", 0, 0, ""),
                    new Manifest.Entry(Kind.SYMLINK, "rank-0/link", 0, 0, "../else where")));

    @TempDir
    private Path directory;

    private void write(byte[] text) throws IOException {
        Files.write(directory.resolve(Manifest.FILE_NAME), text);
    }

    @Test
    void shouldReadWhatWasWrittenWhenNamesAreOdd() throws Exception {
        write(ONE.text().getBytes(StandardCharsets.UTF_8));
        assertEquals(ONE, Manifest.read(directory));
        assertEquals(1L << 40, ONE.totalBytes());
    }

    @Test
    void shouldRefuseWhenAnyBitIsWrongOrItsEndIsMissing() throws Exception {
        byte[] text = ONE.text().getBytes(StandardCharsets.UTF_8);
        for (int at = 0; at < text.length; at++) {
            byte[] damaged = text.clone();
            damaged[at] = (byte) (damaged[at] ^ (1 << (at % 7)));
            write(damaged);
            assertThrows(IOException.class, () -> Manifest.read(directory), "bit of byte " + at);
        }
        write(ONE.text().substring(0, text.length / 2).getBytes(StandardCharsets.UTF_8));
        assertThrows(IOException.class, () -> Manifest.read(directory));
    }

    @Test
    void shouldSayThatItIsNoCopyWhenThereIsNone() {
        IOException refusal = assertThrows(IOException.class, () -> Manifest.read(directory));
        assertTrue(refusal.getMessage().contains("no kept copy"), refusal.getMessage());
    }
}
