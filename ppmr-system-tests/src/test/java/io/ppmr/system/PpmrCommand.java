package io.ppmr.system;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.TimeUnit;

/** A command of ppmr that has ended. */
record PpmrCommand(int exitCode, String said) {
    private static final Path HOME = Path.of(System.getProperty("ppmr.home"));
    private static final long LIMIT_S = 60;

    /** The words that start one, with the shared flags. */
    static List<String> words(String... arguments) throws IOException {
        Properties flags = new Properties();
        try (InputStream in = Files.newInputStream(HOME.resolve("conf/jvm.properties"))) {
            flags.load(in);
        }
        List<String> words = new ArrayList<>();
        words.add(System.getProperty("java.home") + "/bin/java");
        words.addAll(Arrays.asList(flags.getProperty("PPMR_JAVA_OPTIONS").trim().split("\\s+", -1)));
        words.addAll(List.of(
                "-Dppmr.native.dir=" + HOME.resolve("ppmr-checkpoint/target/native"),
                "-cp",
                System.getProperty("java.class.path"),
                "io.ppmr.cli.Main"));
        words.addAll(Arrays.asList(arguments));
        return words;
    }

    /** Runs it to its end. */
    static PpmrCommand run(String... arguments) throws IOException, InterruptedException {
        return run(new ProcessBuilder(words(arguments)));
    }

    /** Runs one whose words may have others before them. */
    static PpmrCommand run(ProcessBuilder builder) throws IOException, InterruptedException {
        Path output = Files.createTempFile("ppmr-command", ".out");
        Process process = builder.redirectErrorStream(true)
                .redirectOutput(output.toFile())
                .start();
        try {
            if (!process.waitFor(LIMIT_S, TimeUnit.SECONDS)) {
                throw new IOException("ppmr has not ended: " + Files.readString(output));
            }
            return new PpmrCommand(process.exitValue(), Files.readString(output, StandardCharsets.UTF_8));
        } finally {
            process.destroyForcibly();
            Files.delete(output);
        }
    }
}
