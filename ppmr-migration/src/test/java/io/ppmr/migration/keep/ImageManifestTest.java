package io.ppmr.migration.keep;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.JobUser;
import io.ppmr.linux.ProcessIdentity;
import io.ppmr.source.image.ImageName.NameKind;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.zip.CRC32C;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class ImageManifestTest {
    private static final ImageManifest ONE = new ImageManifest(
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
                    new ImageManifest.ManifestEntry(NameKind.DIRECTORY, "rank-0", 0, 0, ""),
                    new ImageManifest.ManifestEntry(NameKind.FILE, "rank-0/a b\nc%ü", 1L << 40, 0xFEDCBA98, ""),
                    new ImageManifest.ManifestEntry(NameKind.FILE, "rank-0/plain", 0, 0, ""),
                    new ImageManifest.ManifestEntry(NameKind.SYMLINK, "rank-0/link", 0, 0, "../else where")));

    @TempDir
    private Path directory;

    private void write(byte[] text) throws IOException {
        Files.write(directory.resolve(ImageManifest.FILE_NAME), text);
    }

    @Test
    void shouldReadWhatWasWrittenWhenNamesAreOdd() throws Exception {
        write(ONE.text().getBytes(StandardCharsets.UTF_8));
        assertEquals(ONE, ImageManifest.read(directory));
        assertEquals(1L << 40, ONE.totalBytes());
    }

    @Test
    void shouldRefuseWhenAnyBitIsWrongOrItsEndIsMissing() throws Exception {
        byte[] text = ONE.text().getBytes(StandardCharsets.UTF_8);
        for (int at = 0; at < text.length; at++) {
            byte[] damaged = text.clone();
            damaged[at] = (byte) (damaged[at] ^ (1 << (at % 7)));
            write(damaged);
            assertThrows(IOException.class, () -> ImageManifest.read(directory), "bit of byte " + at);
        }
        write(ONE.text().substring(0, text.length / 2).getBytes(StandardCharsets.UTF_8));
        assertThrows(IOException.class, () -> ImageManifest.read(directory));
    }

    /** Writes the manifest with a changed line, and a right checksum. */
    private void writeChanged(String from, String to) throws IOException {
        String text = ONE.text();
        assertTrue(text.contains(from), from);
        String changed = text.substring(0, text.lastIndexOf("crc32c")).replace(from, to);
        CRC32C crc = new CRC32C();
        crc.update(changed.getBytes(StandardCharsets.UTF_8));
        write((changed + "crc32c " + Integer.toHexString((int) crc.getValue()) + "\n")
                .getBytes(StandardCharsets.UTF_8));
    }

    @ParameterizedTest
    @CsvSource({
        "'rank 0\n', ''",
        "'rank 0', 'rank -1'",
        "'rank 3', 'rank 0'",
        "'rank 3', 'rank'",
        "'process boot 4026531836 12 345\n', ''",
        "'file rank-0%2Fplain 0 0', 'file rank-0%2Fplain -1 0'",
        "'file rank-0%2Fplain 0 0', 'file rank-0%2Fplain 9223372036854775807 0'",
        "'file rank-0%2Fplain 0 0', 'file rank-0%2F..%2F..%2Fetc 0 0'",
        "'file rank-0%2Fplain 0 0', 'file %2Fetc%2Fpasswd 0 0'",
        "'file rank-0%2Fplain 0 0', 'file rank-0%2F%00 0 0'",
        "'file rank-0%2Fplain 0 0', 'file  0 0'",
        "'directory rank-0', 'directory ..'",
        "'user 7 8', 'user 7'",
        "'node node-a', 'node node-a\nnode node-b'",
        "'node node-a', 'node %zz'"
    })
    void shouldRefuseByNameWhenALineIsUnsoundThoughTheChecksumIsRight(String from, String to) throws Exception {
        writeChanged(from.replace("\\n", "\n"), to == null ? "" : to.replace("\\n", "\n"));
        IOException refusal = assertThrows(IOException.class, () -> ImageManifest.read(directory));
        assertTrue(refusal.getMessage().contains("is damaged: "), refusal.getMessage());
    }

    /** Without a rank, no process would count as alive, and all would be restored at once. */
    @Test
    void shouldRefuseByNameWhenItNamesNoRank() throws Exception {
        String text = ONE.text();
        String ranks = text.substring(text.indexOf("rank 0\n"), text.indexOf("directory "));
        writeChanged(ranks, "");
        IOException refusal = assertThrows(IOException.class, () -> ImageManifest.read(directory));
        assertTrue(refusal.getMessage().contains("is damaged: invalid entry: no rank"), refusal.getMessage());
    }

    @Test
    void shouldRefuseByNameWhenItIsNoTextOrTooLong() throws Exception {
        byte[] bytes = ONE.text().getBytes(StandardCharsets.UTF_8);
        bytes[30] = (byte) 0xFF;
        write(bytes);
        IOException refusal = assertThrows(IOException.class, () -> ImageManifest.read(directory));
        assertTrue(refusal.getMessage().contains("not UTF-8"), refusal.getMessage());
        try (RandomAccessFile file =
                new RandomAccessFile(directory.resolve(ImageManifest.FILE_NAME).toFile(), "rw")) {
            file.setLength(1L << 33);
        }
        refusal = assertThrows(IOException.class, () -> ImageManifest.read(directory));
        assertTrue(refusal.getMessage().contains("longer than"), refusal.getMessage());
    }

    @Test
    void shouldSayThatItIsNoCopyWhenThereIsNone() {
        IOException refusal = assertThrows(IOException.class, () -> ImageManifest.read(directory));
        assertTrue(refusal.getMessage().contains("no kept copy"), refusal.getMessage());
    }
}
