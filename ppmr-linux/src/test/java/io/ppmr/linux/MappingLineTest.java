package io.ppmr.linux;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class MappingLineTest {
    private static final Path RECORDED = Path.of("src/test/resources");

    @Test
    void shouldReadAMappingOfAFile() {
        MappingLine mapping = MappingLine.parse(
                        "7f3e1c000000-7f3e1c021000 r-xp 0000a000 08:02 135522                     /usr/lib/a b.so")
                .orElseThrow();
        assertEquals(
                new MappingLine(0x7f3e1c000000L, 0x7f3e1c021000L, "r-xp", 8 << 8 | 2, 135522, "/usr/lib/a b.so"),
                mapping);
        assertFalse(mapping.isShared());
        assertTrue(mapping.hasFile());
        assertEquals("7f3e1c000000-7f3e1c021000", mapping.link());
        assertEquals(
                "400000-401000",
                MappingLine.parse("00400000-00401000 r--s 00000000 fd:01 7 /x")
                        .orElseThrow()
                        .link());
    }

    @Test
    void shouldReadAMappingWithoutAName() {
        assertEquals(
                Optional.of(new MappingLine(0x1000, 0x2000, "rw-p", 0, 0, "")),
                MappingLine.parse("00001000-00002000 rw-p 00000000 00:00 0 "));
        assertEquals(
                Optional.of(new MappingLine(0x1000, 0x2000, "rw-p", 0, 0, "")),
                MappingLine.parse("00001000-00002000 rw-p 00000000 00:00 0"));
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "",
                "Rss:                   4 kB",
                "VmFlags: rd wr mr mw me ac",
                "7f3e1c000000-7f3e1c021000",
                "7f3e1c000000 r-xp 0000a000 08:02 135522 /usr/lib/a.so",
                "7f3e1c000000-7f3e1c021000 new 0000a000 08:02 135522 /usr/lib/a.so",
                "7f3e1c000000-7f3e1c021000 r-xp 0000a000 08:02 99999999999999999999 /usr/lib/a.so"
            })
    void shouldReadNothingWhereThereIsNoMapping(String line) {
        assertEquals(Optional.empty(), MappingLine.parse(line));
    }

    @ParameterizedTest
    @ValueSource(strings = {"linux-3.10", "linux-6.18"})
    void shouldReadEveryRecordedLine(String kernel) throws Exception {
        List<String> maps = Files.readAllLines(RECORDED.resolve(kernel + "/pid-maps"), StandardCharsets.ISO_8859_1);
        assertTrue(maps.size() > 10);
        for (String line : maps) {
            assertTrue(MappingLine.parse(line).isPresent(), line);
        }
        long ofMappings =
                Files.readAllLines(RECORDED.resolve(kernel + "/pid-smaps"), StandardCharsets.ISO_8859_1).stream()
                        .filter(line -> MappingLine.parse(line).isPresent())
                        .count();
        assertEquals(maps.size(), ofMappings, "each mapping of smaps has one such line");
    }

    @Test
    void shouldNameDeviceAndInodeAsStatDoes() throws Exception {
        int files = 0;
        for (String line : Files.readAllLines(Path.of("/proc/self/maps"), StandardCharsets.ISO_8859_1)) {
            MappingLine mapping = MappingLine.parse(line).orElseThrow(() -> new AssertionError(line));
            Path link = Path.of("/proc/self/map_files").resolve(mapping.link());
            if (mapping.hasFile() && Files.isReadable(link)) {
                Map<String, Object> found = Files.readAttributes(link, "unix:ino");
                assertEquals(found.get("ino"), mapping.inode(), line);
                files++;
            }
        }
        assertTrue(files > 0 || !Files.isDirectory(Path.of("/proc/self/map_files")));
    }
}
