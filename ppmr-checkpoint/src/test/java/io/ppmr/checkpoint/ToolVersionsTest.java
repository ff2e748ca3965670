package io.ppmr.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ToolVersionsTest {
    @TempDir
    private Path folder;

    private final ToolVersions versions = new ToolVersions();

    @Test
    void shouldNotRunAToolAgainWhenItsFileIsTheSame() throws Exception {
        List<String> tool = List.of(tool("1.0").toString());
        assertEquals(Optional.of("tool 1.0"), versions.of(tool));
        assertEquals(Optional.of("tool 1.0"), versions.of(tool));
        assertEquals(1, runs());
    }

    @Test
    void shouldRunAToolAgainWhenItWasReplaced() throws Exception {
        assertEquals(Optional.of("tool 1.0"), versions.of(List.of(tool("1.0").toString())));
        assertEquals(
                Optional.of("tool 1.0.1"), versions.of(List.of(tool("1.0.1").toString())));
        assertEquals(2, runs());
    }

    @Test
    void shouldAskAgainWhenAToolDidNotRun() throws Exception {
        Path broken = folder.resolve("broken");
        Files.writeString(broken, "#!/bin/sh\nexit 7\n");
        Files.setPosixFilePermissions(broken, PosixFilePermissions.fromString("rwx------"));
        assertEquals(Optional.empty(), versions.of(List.of(broken.toString())));
        assertEquals(Optional.empty(), versions.of(List.of(broken.toString())));
        assertEquals(
                Optional.empty(), versions.of(List.of(folder.resolve("none").toString())));
    }

    private Path tool(String version) throws IOException {
        Path made = folder.resolve("made");
        Files.writeString(made, "#!/bin/sh\necho run >> " + folder.resolve("runs") + "\necho tool " + version + "\n");
        Files.setPosixFilePermissions(made, PosixFilePermissions.fromString("rwx------"));
        return Files.move(made, folder.resolve("tool"), StandardCopyOption.REPLACE_EXISTING);
    }

    private int runs() throws IOException {
        return Files.readAllLines(folder.resolve("runs")).size();
    }
}
