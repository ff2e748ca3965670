package io.ppmr.bench;

import io.ppmr.bench.Run.Span;
import io.ppmr.linux.Command;
import java.io.BufferedReader;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The benchmark's programs in C, clients and limits, and others that measure. No read of them is without a time limit.
 */
final class Programs {
    /** The property with their directory, set by the launcher. */
    static final String DIRECTORY_PROPERTY = "ppmr.bench.dir";

    static final String IPERF = "iperf3";

    private static final long LIMIT_S = 600;
    private static final long IPERF_LIMIT_S = 30;
    /** With several connections the last line of this kind is the sum. */
    private static final Pattern RECEIVED = Pattern.compile("([0-9.]+) Mbits/sec.*receiver");

    private static final double MIB_A_MBIT = 1e6 / 8 / (1 << 20);

    private Programs() {}

    /** Runs any program to its end, and returns its output on both streams. */
    static String call(List<String> words) throws IOException, InterruptedException {
        return Command.of(words).run(Duration.ofSeconds(LIMIT_S)).requireOutput();
    }

    /** Returns true if a program of the system can be found. */
    static boolean present(String name) {
        String path = System.getenv().getOrDefault("PATH", "/usr/bin:/bin") + ":/usr/sbin";
        return Arrays.stream(path.split(":", -1)).anyMatch(folder -> Files.isExecutable(Path.of(folder, name)));
    }

    /** Starts one of our programs. */
    static Process start(String name, List<String> options) throws IOException {
        Path program = Path.of(System.getProperty(DIRECTORY_PROPERTY, ""), name);
        if (!Files.isExecutable(program)) {
            throw new IOException(program + " is not there: install gcc and libfuse-dev, and build with ./ppmr");
        }
        List<String> words = new ArrayList<>(List.of(program.toString()));
        words.addAll(options);
        return new ProcessBuilder(words)
                .redirectError(ProcessBuilder.Redirect.INHERIT)
                .start();
    }

    /** Returns the figures of one of our programs that was started. The program ended when this returns or throws. */
    static Span await(Process process) throws IOException, InterruptedException {
        endAfter(process, LIMIT_S);
        try {
            String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            if (!process.waitFor(LIMIT_S, TimeUnit.SECONDS) || process.exitValue() != 0) {
                throw new IOException(process.info().command().orElse("a program") + " failed; its message is above");
            }
            return Span.parse(output);
        } finally {
            process.destroyForcibly();
        }
    }

    /** Starts processes that write or read one file each, {@code path} with %d for their number. */
    static Process startClients(StageOptions options, String what, String path, String... more) throws IOException {
        List<String> words = Command.words(
                what + " --processes %s --bytes %s --block %s --path %s",
                options.writers,
                options.bytesAWriter,
                StageOptions.BLOCK_BYTES,
                path);
        words.addAll(Arrays.asList(more));
        return start("bench-io", words);
    }

    /** Runs them to their end. */
    static Span clients(StageOptions options, String what, String path, String... more)
            throws IOException, InterruptedException {
        return await(startClients(options, what, path, more));
    }

    /** A limit that needs no filesystem, in MiB/s: net (B, over as many connections), copy or disk. */
    static double limit(StageOptions options, String what, int threads, String... more)
            throws IOException, InterruptedException {
        List<String> words = Command.words(
                what + " --threads %s --bytes %s --pool %s --chunk %s",
                threads,
                options.allBytes(),
                options.poolBytes,
                options.chunkBytes);
        words.addAll(Arrays.asList(more));
        return await(start("bench-limits", words)).mibPerSecond();
    }

    /**
     * Measures iperf3(1), one program for one process of two and for all its connections, in MiB/s.
     *
     * @param server words before those of the server, to have it run in a node
     * @param client words before those of the client
     * @param address the server's address for the client
     */
    static double iperf(List<String> server, List<String> client, String address, int seconds, int connections)
            throws IOException, InterruptedException {
        int port = freePort(InetAddress.getLoopbackAddress());
        List<String> serving = new ArrayList<>(server);
        serving.addAll(Command.words(IPERF + " -s -1 -p %s --forceflush", port));
        Process process = new ProcessBuilder(serving).redirectErrorStream(true).start();
        endAfter(process, IPERF_LIMIT_S);
        try {
            // The program prints a line when it listens, or exits.
            BufferedReader output = process.inputReader();
            String line = output.readLine();
            while (line != null && !line.contains("listening")) {
                line = output.readLine();
            }
            List<String> asking = new ArrayList<>(client);
            asking.addAll(Command.words(
                    IPERF + " -c %s -p %s -t %s -l 128K -f m -P %s", address, port, seconds, connections));
            String report = call(asking);
            Matcher rate = RECEIVED.matcher(report);
            double last = 0;
            while (rate.find()) {
                last = Double.parseDouble(rate.group(1)) * MIB_A_MBIT;
            }
            if (last == 0) {
                throw new IOException("iperf3 gives no figure: " + report);
            }
            return last;
        } finally {
            process.destroyForcibly();
        }
    }

    static int freePort(InetAddress address) throws IOException {
        try (ServerSocket socket = new ServerSocket(0, 1, address)) {
            return socket.getLocalPort();
        }
    }

    /** Ends it at the deadline, so that a reader of its output waits no longer. */
    static void endAfter(Process process, long atMostS) {
        CompletableFuture.delayedExecutor(atMostS, TimeUnit.SECONDS).execute(process::destroyForcibly);
    }

    /** Waits for a process that is about to end, and ends it if it does not. */
    static void end(Process process, long atMostS) {
        try {
            if (process.waitFor(atMostS, TimeUnit.SECONDS)) {
                return;
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        process.destroyForcibly();
    }
}
