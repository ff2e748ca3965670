package io.ppmr.bench;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** The benchmark's programs in C, and any other program that is run to its end. */
final class Programs {
    /** Where they are, from the launcher. */
    static final String DIRECTORY_PROPERTY = "ppmr.bench.dir";

    private static final long LIMIT_S = 600;

    private Programs() {}

    /** Where one of our programs is. */
    static Path find(String name) throws BenchFailure {
        Path program = Path.of(System.getProperty(DIRECTORY_PROPERTY, ""), name);
        if (!Files.isExecutable(program)) {
            throw new BenchFailure(program + " is not there: " + "install gcc and libfuse-dev, and build with ./ppmr");
        }
        return program;
    }

    /** Whether a program of the system can be found. */
    static boolean present(String name) {
        for (String folder :
                System.getenv().getOrDefault("PATH", "/usr/bin:/bin").split(":", -1)) {
            if (Files.isExecutable(Path.of(folder, name))) {
                return true;
            }
        }
        return Files.isExecutable(Path.of("/usr/sbin", name));
    }

    /** Starts one of our programs. */
    static Process start(String name, List<String> options) throws BenchFailure, IOException {
        List<String> words = new ArrayList<>();
        words.add(find(name).toString());
        words.addAll(options);
        return new ProcessBuilder(words)
                .redirectError(ProcessBuilder.Redirect.INHERIT)
                .start();
    }

    /** The figures of one of our programs that has been started. */
    static Span await(Process process) throws BenchFailure, IOException, InterruptedException {
        endAfter(process, LIMIT_S);
        String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        if (!process.waitFor(LIMIT_S, TimeUnit.SECONDS) || process.exitValue() != 0) {
            process.destroyForcibly();
            throw new BenchFailure(process.info().command().orElse("a program") + " failed; its message is above");
        }
        return Span.parse(output);
    }

    /** Runs one of our programs. */
    static Span run(String name, List<String> options) throws BenchFailure, IOException, InterruptedException {
        Process process = start(name, options);
        try {
            return await(process);
        } finally {
            process.destroyForcibly();
        }
    }

    /** Ends it by then if it has not ended: whoever reads what it prints waits no longer. */
    static void endAfter(Process process, long atMostS) {
        CompletableFuture.delayedExecutor(atMostS, TimeUnit.SECONDS).execute(process::destroyForcibly);
    }

    /** Waits for a process that is about to end, and ends it if it does not. */
    static void end(Process process, long atMostS) {
        try {
            if (!process.waitFor(atMostS, TimeUnit.SECONDS)) {
                process.destroyForcibly();
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            process.destroyForcibly();
        }
    }

    /** Runs any program; gives what it printed on both streams. */
    static String call(List<String> words) throws BenchFailure, IOException, InterruptedException {
        Process process = new ProcessBuilder(words).redirectErrorStream(true).start();
        endAfter(process, LIMIT_S);
        try {
            process.getOutputStream().close();
            String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            if (!process.waitFor(LIMIT_S, TimeUnit.SECONDS) || process.exitValue() != 0) {
                throw new BenchFailure(String.join(" ", words) + ": " + output.strip());
            }
            return output;
        } finally {
            process.destroyForcibly();
        }
    }
}
