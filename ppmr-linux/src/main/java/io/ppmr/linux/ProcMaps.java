package io.ppmr.linux;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * Reads {@code /proc/PID/maps} as a stream of lines: a process can have 65,530 mappings, with names of some thousand
 * bytes. Any thread.
 */
public final class ProcMaps {
    private static final int BUFFER_BYTES = 1 << 16;
    /** Address, permissions, offset, device, inode and the longest name, whose line ends are in octal. */
    private static final int LONGEST_LINE = 4 * 4096 + 200;

    /** Receives lines. */
    @FunctionalInterface
    public interface Lines {
        /**
         * Receives one line, with a character from 0 to 255 for each byte. A line that is longer than any valid one is
         * truncated.
         */
        void accept(String line) throws IOException;
    }

    private ProcMaps() {}

    /** Reads the lines of a process; none if the process ended. */
    public static void read(int pid, Lines lines) throws IOException {
        try (InputStream maps = Files.newInputStream(Path.of("/proc", Integer.toString(pid), "maps"))) {
            byte[] buffer = new byte[BUFFER_BYTES];
            byte[] line = new byte[LONGEST_LINE];
            int used = 0;
            for (int length = maps.read(buffer); length > 0; length = maps.read(buffer)) {
                for (int at = 0; at < length; at++) {
                    if (buffer[at] == '\n') {
                        lines.accept(new String(line, 0, used, StandardCharsets.ISO_8859_1));
                        used = 0;
                    } else if (used < line.length) {
                        line[used++] = buffer[at];
                    }
                }
            }
        } catch (IOException e) {
            if (!ProcFiles.meansGone(e)) {
                throw e;
            }
        }
    }
}
