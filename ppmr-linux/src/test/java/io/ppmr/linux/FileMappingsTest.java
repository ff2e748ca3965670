package io.ppmr.linux;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.linux.FileMappings.FileMapping;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class FileMappingsTest {
    @TempDir
    private Path folder;

    private static List<FileMapping> read(Path maps) throws IOException {
        List<FileMapping> found = new ArrayList<>();
        FileMappings.<RuntimeException>forEach(maps.toString(), found::add);
        return found;
    }

    /** Reads a text in place of a process's file: other files do not support the kernel's call. */
    private List<FileMapping> asText(String text) throws IOException {
        return read(Files.writeString(folder.resolve("maps"), text, StandardCharsets.ISO_8859_1));
    }

    @Test
    void shouldReturnTheSameMappingsByQueryAndByText() throws Exception {
        Process process = new ProcessBuilder("sh", "-c", "echo ready; read word").start();
        try {
            // The process created all its mappings by now.
            assertEquals(
                    "ready\n",
                    new String(process.getInputStream().readNBytes("ready\n".length()), StandardCharsets.US_ASCII));
            Path maps = Path.of("/proc", "" + process.pid(), "maps");
            List<FileMapping> asked = read(maps);
            List<FileMapping> text = asText(Files.readString(maps, StandardCharsets.ISO_8859_1));
            assertFalse(asked.isEmpty());
            assertEquals(
                    text.stream().map(FileMapping::link).toList(),
                    asked.stream().map(FileMapping::link).toList());
            for (int i = 0; i < text.size(); i++) {
                for (int j = 0; j < text.size(); j++) {
                    assertEquals(
                            text.get(i).file().equals(text.get(j).file()),
                            asked.get(i).file().equals(asked.get(j).file()));
                }
                assertEquals(text.get(i).shared(), asked.get(i).shared());
            }
        } finally {
            process.destroyForcibly().waitFor();
        }
    }

    @Test
    void shouldSkipNamesOfAnyLength() throws Exception {
        String name = "/" + "d".repeat(200_000);
        List<FileMapping> found = asText("1000-2000 rw-p 00000000 00:00 0 \n" + "2000-3000 r--s 00000000 fd:01 77   "
                + name + "\n" + "3000-4000 r--p 00001000 fd:01 77   " + name + "\n"
                + "4000-5000 r-xp 00000000 00:00 0 [vdso]\n");
        assertEquals(
                List.of("2000-3000", "3000-4000"),
                found.stream().map(FileMapping::link).toList());
        assertTrue(found.get(0).shared());
        assertFalse(found.get(1).shared());
        assertEquals(found.get(0).file(), found.get(1).file());
    }

    @Test
    void shouldNameTheFileThatCannotBeReadWhenTheProcessIsGone() {
        IOException gone = assertThrows(IOException.class, () -> read(folder.resolve("none")));
        assertTrue(gone.getMessage().contains(folder.resolve("none").toString()), gone.getMessage());
    }
}
