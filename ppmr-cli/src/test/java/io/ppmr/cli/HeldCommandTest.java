package io.ppmr.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A package is removed only if this command finds nothing, so it must find all that is held. */
class HeldCommandTest {
    private static final String HELD = "ppmr checkpoint 1\nset 1-1-00000000\nimages %2Fckpt 1000 ring\npod 0 p0\n";

    @TempDir
    private Path folder;

    private final StringWriter out = new StringWriter();
    private Path file;

    @BeforeEach
    void writeFile() throws IOException {
        file = Files.writeString(folder.resolve("source.toml"), "journal = \"" + folder + "\"\n");
        Files.createDirectory(folder.resolve("checkpoints"));
        Files.createDirectory(folder.resolve("restarts"));
    }

    private int run() {
        out.getBuffer().setLength(0);
        return Main.execute(
                new String[] {"held", "--config", file.toString()}, new PrintWriter(out, true), new PrintWriter(out));
    }

    @Test
    void shouldNameTheJobWhenACheckpointHoldsItsPods() throws Exception {
        assertEquals(0, run());
        Path note = folder.resolve("checkpoints/checkpoint-1");
        Files.writeString(note, HELD + "process boot 7 1 100\n");
        assertEquals(4, run());
        assertTrue(out.toString().contains("pods of job ring are held for a checkpoint"), out.toString());
        // The pods run, and only their images are left.
        Files.writeString(note, HELD);
        assertEquals(0, run());
    }

    @Test
    void shouldNameTheMoveWhenARestartReleasesPods() throws Exception {
        Path note = folder.resolve("restarts/restart-1000.ring-1");
        Files.writeString(note, "boot 7 1 100\n");
        assertEquals(4, run());
        assertTrue(out.toString().contains("restart-1000.ring-1"), out.toString());
        Files.writeString(note, "");
        assertEquals(0, run());
    }

    @Test
    void shouldCountANoteThatWasNotWrittenToItsEndForNothing() throws Exception {
        Path part = Files.writeString(folder.resolve("checkpoints/checkpoint-1.part"), HELD + "process boot 7 1 100\n");
        assertEquals(0, run());
        assertTrue(Files.exists(part), "the command changes nothing");
    }
}
