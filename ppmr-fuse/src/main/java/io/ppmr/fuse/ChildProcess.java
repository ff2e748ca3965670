package io.ppmr.fuse;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.TimeUnit;

/**
 * Small commands that touch a mount in our stead: a service must never hold a file of its own mount, because a
 * killed one would then hang in the kernel. Output must stay below a pipe's 64 KiB.
 */
final class ChildProcess {
    private ChildProcess() {}

    /** How a command ended; {@code exitCode} is -1 where it had to be killed at its deadline. */
    record Result(List<String> command, int exitCode, String output) {
        boolean succeeded() {
            return exitCode == 0;
        }

        String describe() {
            String how = exitCode < 0 ? "killed at its deadline" : "exit " + exitCode;
            return "'" + String.join(" ", command) + "': " + how + (output.isEmpty() ? "" : ": " + output);
        }
    }

    static Process start(List<String> command) throws IOException {
        ProcessBuilder builder = new ProcessBuilder(command)
                .directory(new java.io.File("/"))
                .redirectErrorStream(true)
                .redirectInput(new java.io.File("/dev/null"));
        builder.environment().put("LC_ALL", "C");
        return builder.start();
    }

    static Result run(List<String> command, long timeoutNs) throws IOException, InterruptedException {
        return await(command, start(command), System.nanoTime() + timeoutNs);
    }

    /** Waits for a started command; kills it at the deadline, and when we are interrupted. */
    static Result await(List<String> command, Process process, long deadlineNs)
            throws IOException, InterruptedException {
        boolean ended = false;
        try {
            ended = process.waitFor(deadlineNs - System.nanoTime(), TimeUnit.NANOSECONDS);
        } finally {
            if (!ended) {
                process.destroyForcibly();
            }
        }
        if (!ended) {
            // Its pipe is left unread: a child that hangs in the kernel keeps it open.
            return new Result(command, -1, "");
        }
        try (InputStream in = process.getInputStream()) {
            return new Result(
                    command, process.exitValue(), new String(in.readAllBytes(), StandardCharsets.UTF_8).strip());
        }
    }
}
