package io.ppmr.bench;

import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.cli.demo.Node;
import java.io.Closeable;
import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Two isolated nodes on this machine, joined by a link that can be shaped, and processes of a job in the first. */
final class TwoNodes implements Closeable {
    static final String ADDRESS_A = "169.254.78.1";
    static final String ADDRESS_B = "169.254.78.2";

    private static final String PROGRAMS_PROPERTY = "ppmr.demo.dir";
    private static final Duration LIMIT = Duration.ofSeconds(60);
    private static final Pattern RATE = Pattern.compile("([0-9.]+) Mbits/sec.*receiver");
    private static final double MIB_A_MBIT = 1e6 / 8 / (1 << 20);
    private static final int PASSES = 1_000_000;
    private static final int PACE_MS = 500;

    private final Path folder;
    private final Path bin;
    private final Node a;
    private final Node b;

    /** Makes them; {@code link} is a rate as tc(8) takes it, or empty for none. */
    TwoNodes(Path folder, String link) throws IOException, InterruptedException {
        this.folder = folder;
        bin = programs(folder.resolve("bin"));
        a = Node.create("bench-a");
        Node made = null;
        try {
            made = Node.create("bench-b");
            Node.connect(a, ADDRESS_A, made, ADDRESS_B);
            if (!link.isEmpty()) {
                shape(a, link);
                shape(made, link);
            }
        } catch (IOException e) {
            a.close();
            if (made != null) {
                made.close();
            }
            throw e;
        }
        b = made;
    }

    private static void shape(Node node, String link) throws IOException, InterruptedException {
        node.run(
                LIMIT, "tc", "qdisc", "add", "dev", "node0", "root", "tbf", "rate", link, "burst", "256kb", "latency",
                "50ms");
    }

    private static Path programs(Path bin) throws IOException {
        Files.createDirectories(bin);
        for (Path from : List.of(
                NativePrograms.fromSystemProperty().directory(), Path.of(System.getProperty(PROGRAMS_PROPERTY, "")))) {
            try (DirectoryStream<Path> files = Files.newDirectoryStream(from)) {
                for (Path file : files) {
                    Files.copy(file, bin.resolve(file.getFileName()), StandardCopyOption.REPLACE_EXISTING);
                }
            }
        }
        return bin;
    }

    Node a() {
        return a;
    }

    Node b() {
        return b;
    }

    /** The helpers and the job's programs. */
    Path bin() {
        return bin;
    }

    Path pidFile(int rank) {
        return folder.resolve("rank-" + rank + ".pid");
    }

    /** Starts the processes of a job in the first node; each has its memory filled before this returns. */
    void startJob(int processes, long bytesEach) throws IOException, InterruptedException {
        List<Path> progress = new ArrayList<>();
        for (int rank = 0; rank < processes; rank++) {
            Path file = folder.resolve("rank-" + rank + ".progress");
            Files.deleteIfExists(file);
            progress.add(file);
            a.startDetached(
                    pidFile(rank),
                    List.of(
                            bin.resolve("selfckpt-job").toString(),
                            "--size",
                            Long.toString(bytesEach),
                            "--passes",
                            Integer.toString(PASSES),
                            "--pace",
                            Integer.toString(PACE_MS),
                            "--seed",
                            Integer.toString(rank + 1),
                            "--out",
                            folder.resolve("rank-" + rank + ".out").toString(),
                            "--progress",
                            file.toString()));
        }
        Waiting.until(LIMIT, "the job's first pass", () -> progress.stream().allMatch(Files::exists));
    }

    /** Ends the copies that were moved to the second node, so that they do not compute beside the next job. */
    void endCopies() throws IOException, InterruptedException {
        b.run(
                LIMIT,
                "sh",
                "-c",
                "for p in /proc/[0-9]*; do [ \"$(cat $p/comm 2>/dev/null)\" = selfckpt-job ]"
                        + " && kill -9 ${p#/proc/}; done; true");
    }

    /** What one connection carries over the link, by iperf3, in MiB/s. */
    double iperf() throws BenchFailure, IOException, InterruptedException {
        Process server = b.command(List.of("iperf3", "-s", "-1")).start();
        try {
            Waiting.until(LIMIT, "iperf3 to listen", () -> listens(b));
            String said = a.run(LIMIT, "iperf3", "-c", ADDRESS_B, "-t", "3", "-l", "128K", "-f", "m");
            Matcher rate = RATE.matcher(said);
            if (!rate.find()) {
                throw new BenchFailure("iperf3 gives no figure: " + said);
            }
            return Double.parseDouble(rate.group(1)) * MIB_A_MBIT;
        } finally {
            server.destroyForcibly();
        }
    }

    private static boolean listens(Node node) {
        try {
            return node.run(LIMIT, "cat", "/proc/net/tcp6", "/proc/net/tcp").contains(":1451 ");
        } catch (IOException e) {
            return false;
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return false;
        }
    }

    @Override
    public void close() throws IOException {
        try {
            a.close();
        } finally {
            b.close();
        }
    }
}
