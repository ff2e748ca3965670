package io.ppmr.testbed;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** A command that has ended, with all that it printed on both streams. */
public record CommandResult(int exitCode, String said) {

    /** Runs a command with an empty standard input to its end; kills it, and throws, if it has not ended by then. */
    public static CommandResult of(Duration limit, ProcessBuilder builder) throws IOException, InterruptedException {
        // A file, since a process that the command leaves behind may keep a pipe open for ever.
        Path output = Files.createTempFile("ppmr-command", ".out");
        try {
            Process process = builder.redirectErrorStream(true)
                    .redirectInput(Path.of("/dev/null").toFile())
                    .redirectOutput(output.toFile())
                    .start();
            try {
                if (!process.waitFor(limit.toMillis(), TimeUnit.MILLISECONDS)) {
                    process.descendants().forEach(ProcessHandle::destroyForcibly);
                    throw new IOException(String.join(" ", builder.command()) + " has not ended within " + limit + ": "
                            + read(output));
                }
                return new CommandResult(process.exitValue(), read(output));
            } finally {
                process.destroyForcibly();
            }
        } finally {
            Files.delete(output);
        }
    }

    private static String read(Path output) throws IOException {
        return new String(Files.readAllBytes(output), StandardCharsets.UTF_8);
    }

    /** Runs a command to its end and gives what it printed; throws if it fails or does not end. */
    public static String call(Duration limit, List<String> words) throws IOException, InterruptedException {
        CommandResult result = of(limit, new ProcessBuilder(words));
        if (result.exitCode != 0) {
            throw new IOException(
                    String.join(" ", words) + " failed with status " + result.exitCode + ": " + result.said.strip());
        }
        return result.said.strip();
    }
}
