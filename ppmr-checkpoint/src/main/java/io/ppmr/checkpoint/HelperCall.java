package io.ppmr.checkpoint;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** One short run of a helper program whose few lines of output are wanted. Blocks the caller. */
final class HelperCall {
    /**
     * How it ended.
     *
     * @param exitCode its exit status
     * @param output its standard output and error, trimmed
     */
    record Result(int exitCode, String output) {
        String describe() {
            return output.isEmpty() ? "exit status " + exitCode : "exit status " + exitCode + ": " + output;
        }
    }

    private HelperCall() {}

    /**
     * Runs a command to its end. An interrupt does not stop it, since it comes in the middle of a clean-up as likely as
     * not; the flag is set again afterwards.
     */
    static Result run(List<String> command, Duration limit) throws CheckpointException {
        Process process;
        try {
            process = new ProcessBuilder(command)
                    .redirectErrorStream(true)
                    .redirectInput(ProcessBuilder.Redirect.from(ToolProcess.NULL))
                    .start();
        } catch (IOException e) {
            throw new CheckpointException(command.get(0) + " cannot be started: " + e.getMessage(), e);
        }
        if (!waitUninterruptibly(process, limit)) {
            process.destroyForcibly();
            throw new CheckpointException(String.join(" ", command) + " has not ended within " + limit);
        }
        // Output that a grandchild may still add is not waited for.
        try (InputStream output = process.getInputStream()) {
            byte[] bytes = output.readNBytes(output.available());
            return new Result(process.exitValue(), new String(bytes, StandardCharsets.UTF_8).trim());
        } catch (IOException e) {
            throw new CheckpointException("the output of " + command.get(0) + " cannot be read", e);
        }
    }

    private static boolean waitUninterruptibly(Process process, Duration limit) {
        long deadlineNs = System.nanoTime() + limit.toNanos();
        boolean interrupted = false;
        try {
            while (true) {
                try {
                    return process.waitFor(deadlineNs - System.nanoTime(), TimeUnit.NANOSECONDS);
                } catch (InterruptedException e) {
                    interrupted = true;
                }
            }
        } finally {
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }
}
