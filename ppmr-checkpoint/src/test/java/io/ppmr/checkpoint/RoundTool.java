package io.ppmr.checkpoint;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.linux.ProcStat;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/**
 * {@code ppmr-pages source --rounds} beside a job that uses its memory in every way, without services. Its folder has
 * the directories {@code images} and {@code scratch}. Closed by its test, which owns it.
 */
final class RoundTool implements AutoCloseable {
    static final Duration LIMIT = Duration.ofSeconds(30L * Integer.getInteger("ppmr.patience", 1));

    private final Path folder;
    private final Process tool;
    private final RandomAccessFile orders;
    private final BufferedReader lines;

    /**
     * @param before words before the tool's
     * @param dump the command that dumps the held job
     */
    RoundTool(Path folder, Process job, List<String> before, List<String> dump) throws Exception {
        this.folder = folder;
        Files.createDirectory(images());
        Files.createDirectory(scratch());
        ProcStat root = ProcStat.read(Path.of("/proc/" + job.pid() + "/stat")).orElseThrow();
        List<String> words = new ArrayList<>(before);
        words.addAll(List.of(
                program("ppmr.native.dir", "ppmr-pages"),
                "source",
                "--images",
                images().toString(),
                "--scratch",
                scratch().toString(),
                "--root",
                Long.toString(job.pid()),
                "--rounds",
                Long.toString(root.startTimeTicks()),
                "--"));
        words.addAll(dump);
        tool = new ProcessBuilder(words)
                .redirectError(folder.resolve("errors").toFile())
                .start();
        lines = tool.inputReader(StandardCharsets.US_ASCII);
        Path fifo = scratch().resolve("orders");
        until("the tool waits for orders: " + text(folder.resolve("errors")), () -> Files.exists(fifo));
        orders = new RandomAccessFile(fifo.toFile(), "rw");
    }

    Path images() {
        return folder.resolve("images");
    }

    Path scratch() {
        return folder.resolve("scratch");
    }

    /** The rounds ended because a thread did not stop in time, as beside a loaded machine. The job runs as before. */
    static final class RoundsEndedException extends Exception {
        private static final long serialVersionUID = 1;

        RoundsEndedException(String reason) {
            super(reason);
        }
    }

    /** Makes a round, and returns the tool's line about it. */
    String round() throws IOException, RoundsEndedException {
        orders.writeBytes("round\n");
        String line = String.valueOf(lines.readLine());
        String reason = line + " " + text(folder.resolve("errors"));
        if (!line.startsWith("round ") && reason.contains("has not stopped within")) {
            throw new RoundsEndedException(reason);
        }
        return line;
    }

    /** Sends the rest of processes that are held. */
    void dump(List<Long> pids) throws Exception {
        StringBuilder line = new StringBuilder("dump");
        pids.forEach(pid -> line.append(' ').append(pid));
        orders.writeBytes(line.append('\n').toString());
        int end = end();
        assertTrue(end == 0, () -> "the source ends with " + end + ": " + text(folder.resolve("errors")));
    }

    private int end() throws Exception {
        orders.close();
        assertTrue(tool.waitFor(LIMIT.toSeconds(), TimeUnit.SECONDS), "the tool ends with the orders");
        return tool.exitValue();
    }

    /** Ends the tool. The job runs as before. */
    @Override
    public void close() throws Exception {
        end();
        try (Stream<Path> files = Files.list(images())) {
            for (Path file : files.toList()) {
                Files.delete(file);
            }
        }
    }

    /** Starts a job, and waits until it computes. Its report is a file of the folder. */
    static Process job(Path folder, String... arguments) throws Exception {
        List<String> words = new ArrayList<>(List.of(
                "setsid",
                program("ppmr.native.test.dir", "churn-job"),
                "--report",
                folder.resolve("report").toString()));
        words.addAll(List.of(arguments));
        Process job = new ProcessBuilder(words)
                .redirectErrorStream(true)
                .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                .start();
        until("the job computes", () -> text(folder.resolve("report")).contains("ready"));
        return job;
    }

    /** Draws the arguments of a job with so many MiB, with threads and children, which write little or much. */
    static List<String> draw(Random random, int mib, int paces) {
        return List.of(
                "--threads",
                Integer.toString(1 + random.nextInt(3)),
                "--children",
                Integer.toString(random.nextInt(3)),
                "--pace",
                Integer.toString(10 << random.nextInt(paces)),
                "--seed",
                Integer.toString(1 + random.nextInt(1 << 30)),
                "--mib",
                Integer.toString(mib));
    }

    /** Has the job check all of its memory and end. */
    static void requireRight(Path folder, Process job) throws Exception {
        assertTrue(new ProcessBuilder("kill", "-TERM", Long.toString(job.pid()))
                        .start()
                        .waitFor()
                == 0);
        Path report = folder.resolve("report");
        until(
                "the job ends",
                () -> text(report).contains("end:") || text(report).contains("wrong"));
        assertFalse(text(report).contains("wrong"), text(report));
    }

    static void kill(Process job) {
        List<ProcessHandle> all = job.descendants().toList();
        job.destroyForcibly();
        all.forEach(ProcessHandle::destroyForcibly);
    }

    static String text(Path file) {
        try {
            return Files.readString(file);
        } catch (IOException gone) {
            return "";
        }
    }

    static String program(String property, String name) {
        return Path.of(System.getProperty(property), name).toString();
    }

    static void until(String what, Polling.Condition<Exception> condition) throws Exception {
        assertTrue(Polling.until(LIMIT, condition), what);
    }
}
