package io.ppmr.system;

import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Patience;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** A program beside a test. A file gets its output, and close() ends it. */
final class Spawned implements AutoCloseable {
    private static final Duration LIMIT = Patience.of(Duration.ofMinutes(2));
    private static final long END_S = 10;

    private final Path output;
    private final Process process;

    Spawned(List<String> words, Path output) throws IOException {
        this.output = output;
        process = new ProcessBuilder(words)
                .redirectErrorStream(true)
                .redirectOutput(output.toFile())
                .start();
    }

    String said() throws IOException {
        return Files.readString(output);
    }

    /** Waits until it prints a text. Throws with its output if it ends before. */
    void await(String text) throws Exception {
        Conditions.until(LIMIT, "it says " + text, () -> {
            boolean alive = process.isAlive();
            boolean says = said().contains(text);
            if (!says && !alive) {
                throw new IOException("it has ended, status " + process.exitValue() + ": " + said());
            }
            return says;
        });
    }

    @Override
    public void close() throws IOException {
        process.descendants().forEach(ProcessHandle::destroyForcibly);
        process.destroyForcibly();
        try {
            if (!process.waitFor(END_S, TimeUnit.SECONDS)) {
                throw new IOException(output + ": PID " + process.pid() + " was killed and has not ended");
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
