package io.ppmr.linux;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class MountEntryTest {
    @Test
    void shouldReadFieldsWhenLineHasOptionalFieldsAndEscapes() {
        assertEquals(
                Optional.of(new MountEntry(53, "/", "/mnt/with blank\\", "fuse.ppmr", "ppmr-source@12.345.678")),
                MountEntry.parse("36 35 0:53 / /mnt/with\\040blank\\134 rw,nosuid shared:7 master:1"
                        + " - fuse.ppmr ppmr-source@12.345.678 rw,user_id=0"));
    }

    @Test
    void shouldReadFieldsWhenLineHasNoOptionalField() {
        assertEquals(
                Optional.of(new MountEntry(1, "/", "/", "ext4", "/dev/root")),
                MountEntry.parse("36 35 8:1 / / rw - ext4 /dev/root rw"));
        // A mount may have an empty name.
        assertEquals(
                Optional.of(new MountEntry(1, "/", "/mnt", "tmpfs", "")),
                MountEntry.parse("36 35 8:1 / /mnt rw - tmpfs  rw"));
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "",
                "36",
                "36 35 8:1 / / rw ext4 /dev/root rw",
                "36 35 8:1 / / rw - ext4",
                "36 35 eight / / rw - ext4 /dev/root rw",
                "36 35 8:99999999999 / / rw - ext4 /dev/root rw"
            })
    void shouldSkipALineThatCannotBeParsed(String line) {
        assertEquals(Optional.empty(), MountEntry.parse(line));
    }

    @Test
    void shouldKeepTextThatIsNotAnEscape() {
        MountEntry entry =
                MountEntry.parse("36 35 0:53 / /a\\8b\\04 rw - tmpfs \\ rw").orElseThrow();
        assertEquals("/a\\8b\\04", entry.mountPoint());
        assertEquals("\\", entry.source());
    }

    /** A user can mount at a place whose name is not valid UTF-8. */
    @Test
    void shouldFindAMountBesideOneWithAnInvalidName(@TempDir Path process) throws Exception {
        String lines = """
                36 35 0:53 / /home/user/\u00ff\u00c3 rw - fuse.sshfs user@host rw
                37 35 0:54 / /mnt/\u00c3\u00a4 rw - fuse.ppmr ppmr-source@1.2.3 rw
                """;
        Files.writeString(process.resolve("mountinfo"), lines, StandardCharsets.ISO_8859_1);
        List<MountEntry> entries = MountEntry.of(process);
        assertEquals(2, entries.size());
        String wanted = new String("/mnt/\u00e4".getBytes(StandardCharsets.UTF_8), StandardCharsets.ISO_8859_1);
        assertEquals(wanted, entries.get(1).mountPoint());
        assertTrue(entries.get(1).contains(wanted + "/below"));
    }

    @Test
    void shouldRecognizePathsBelowAMount() {
        MountEntry entry = new MountEntry(1, "/", "/mnt", "tmpfs", "");
        assertTrue(entry.contains("/mnt"));
        assertTrue(entry.contains("/mnt/a"));
        assertFalse(entry.contains("/mnta"));
        assertFalse(entry.contains("/"));
        assertTrue(new MountEntry(1, "/", "/", "ext4", "").contains("/mnt"));
    }

    /** Reads a real mount of this kernel, in a mount namespace that ends with the command. */
    @Test
    void shouldReadARealMountWithAnInvalidName(@TempDir Path folder) throws Exception {
        Assumptions.assumeTrue(
                Files.getAttribute(Path.of("/proc/self"), "unix:uid").equals(0), "root alone mounts");
        String script = "d=$(printf '%s/\\377 \\303' \"$1\") && mkdir \"$d\" && mount -t tmpfs none \"$d\""
                + " && cat /proc/self/mountinfo > \"$1/mountinfo\" && umount \"$d\" && rmdir \"$d\"";
        Process process = new ProcessBuilder("unshare", "--mount", "sh", "-c", script, "sh", folder.toString())
                .redirectErrorStream(true)
                .start();
        String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.ISO_8859_1);
        assertEquals(0, process.waitFor(), said);
        assertTrue(
                MountEntry.of(folder).stream()
                        .anyMatch(entry -> entry.mountPoint().endsWith("/\u00ff \u00c3")
                                && entry.type().equals("tmpfs")),
                "it is found");
    }
}
