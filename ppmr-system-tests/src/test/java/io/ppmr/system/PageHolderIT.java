package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.linux.Command;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Patience;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * Copies that are continued from outside before their pages are there. Real CRIU makes them, {@code ppmr-pages} fills
 * them, and this test writes the stream of pages, of which it keeps a part back. The job has no rseq areas, so that the
 * restore ends before the last page.
 */
@Timeout(value = 120, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class PageHolderIT {
    private static final Duration LIMIT = Patience.of(Duration.ofSeconds(40));
    private static final long MEMORY_BYTES = 24 << 20;
    private static final String COPY = "plain-job";
    private static final int BLOCK_BYTES = 256 << 10;
    private static final List<String> WORDS = List.of(
            System.getProperty("ppmr.demo.dir") + "/plain-job",
            "--size",
            Long.toString(MEMORY_BYTES),
            "--passes",
            "40",
            "--seed",
            "3",
            "--threads",
            "3");

    @TempDir
    private Path directory;

    private Path images;
    private Process original;
    private Process namespace;
    private OutputStream stream;
    private byte[] pages;
    private int written;

    @BeforeEach
    void checkpoint() throws Exception {
        images = Files.createDirectory(directory.resolve("images"));
        Path scratch = Files.createDirectory(directory.resolve("scratch"));
        List<String> job = new ArrayList<>(List.of("setsid", "env", "GLIBC_TUNABLES=glibc.pthread.rseq=0"));
        job.addAll(WORDS);
        job.addAll(List.of("--out", "out", "--progress", "turns", "--pace", "100", "--until", "cue"));
        original = quiet(job).start();
        String root = Long.toString(original.pid());
        Conditions.until(LIMIT, "the job computes", () -> !turns().isEmpty());
        List<String> dump = pagesProgram("source", "--images", "" + images, "--scratch", "" + scratch, "--root", root);
        List<ProcessHandle> all = new ArrayList<>(List.of(original.toHandle()));
        original.descendants().forEach(all::add);
        for (ProcessHandle process : all) {
            signal("STOP", process.pid());
            dump.addAll(List.of("--pid", Long.toString(process.pid())));
        }
        dump.add("--");
        dump.addAll(criu("dump", scratch));
        dump.addAll(List.of("--tree", root, "--ps-socket", "{socket}", "--status-fd", "{status}"));
        run(dump);
        Path file = images.resolve("pages.stream");
        pages = Files.readAllBytes(file);
        assertTrue(pages.length >= MEMORY_BYTES / 2, "only " + pages.length + " bytes are streamed");
        Files.delete(file);
        run(List.of("mkfifo", file.toString()));
    }

    /** Starts the restore, and returns after it ended with a part of the pages written. */
    private void restore() throws Exception {
        Path work = Files.createDirectory(directory.resolve("work"));
        List<String> restore = pagesProgram(
                "target", "--images", "" + images, "--work", "" + work, "--pids-file", work + "/pids", "--");
        restore.addAll(criu("restore", work));
        restore.addAll(List.of("--pidfile", work + "/root", "--restore-detached", "--shell-job"));
        // The shell is the init of the namespace: it outlives ppmr-pages, and reaps.
        List<String> command = new ArrayList<>(List.of(
                "unshare",
                "--pid",
                "--fork",
                "--kill-child",
                "--mount-proc",
                "sh",
                "-c",
                "\"$@\"; echo $? > " + directory + "/status; while sleep 0.2; do :; done",
                "sh"));
        command.addAll(restore);
        namespace = quiet(command)
                .redirectError(directory.resolve("error").toFile())
                .start();
        stream = Files.newOutputStream(images.resolve("pages.stream"));
        try {
            write(pages.length / 2);
            Conditions.until(
                    LIMIT,
                    "the restore ended",
                    () -> Files.exists(work.resolve("root"))
                            && processes("criu").isEmpty());
        } catch (IOException e) {
            throw new IOException(
                    Files.readString(directory.resolve("error")) + Files.readString(work.resolve("restore.log")), e);
        }
    }

    @AfterEach
    void end() throws Exception {
        if (stream != null) {
            stream.close();
        }
        for (Process process : namespace == null ? List.of(original) : List.of(namespace, original)) {
            process.destroyForcibly().waitFor();
        }
    }

    private ProcessBuilder quiet(List<String> command) {
        return new ProcessBuilder(command)
                .directory(directory.toFile())
                .redirectInput(Path.of("/dev/null").toFile())
                .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                .redirectError(ProcessBuilder.Redirect.DISCARD);
    }

    private static List<String> pagesProgram(String... words) {
        List<String> all = new ArrayList<>(List.of(System.getProperty("ppmr.native.dir") + "/ppmr-pages"));
        all.addAll(List.of(words));
        return all;
    }

    private List<String> criu(String action, Path work) {
        List<String> words = new ArrayList<>(System.getenv()
                .getOrDefault("PPMR_CRIU", "criu")
                .strip()
                .lines()
                .toList());
        words.addAll(List.of(action, "--images-dir", "" + images, "--work-dir", "" + work, "--log-file"));
        words.addAll(List.of(work + "/" + action + ".log", "--leave-stopped", "--manage-cgroups=ignore"));
        words.add("--lazy-pages");
        return words;
    }

    private static void run(List<String> command) throws Exception {
        Command.CommandResult result = Command.of(command).run(LIMIT);
        assertTrue(result.succeeded(), command + ": " + result.output());
    }

    private static void signal(String name, long pid) throws Exception {
        run(List.of("kill", "-" + name, Long.toString(pid)));
    }

    private void write(int bytes) throws IOException {
        for (int end = written + bytes; written < end; ) {
            int length = Math.min(BLOCK_BYTES, end - written);
            stream.write(pages, written, length);
            written += length;
        }
    }

    private String turns() throws IOException {
        Path turns = directory.resolve("turns");
        return Files.exists(turns) ? Files.readString(turns) : "";
    }

    /** Returns the processes of the namespace whose names begin with this. */
    private List<Long> processes(String name) {
        try (Stream<ProcessHandle> all = namespace.descendants()) {
            return all.map(ProcessHandle::pid)
                    .filter(pid -> name(pid).startsWith(name))
                    .toList();
        }
    }

    private static String name(long pid) {
        try {
            String name = Files.readString(Path.of("/proc/" + pid + "/comm"), StandardCharsets.ISO_8859_1)
                    .strip();
            // CRIU of a private root is started by the dynamic loader.
            return name.startsWith("ld-linux") ? "criu" : name;
        } catch (IOException gone) {
            return "";
        }
    }

    private long only(String name) {
        List<Long> found = processes(name);
        assertEquals(1, found.size(), name + ": " + found);
        return found.get(0);
    }

    private boolean hasWaiting() throws IOException {
        for (long copy : processes(COPY)) {
            if (waitsForAPage(copy)) {
                return true;
            }
        }
        return false;
    }

    private static boolean waitsForAPage(long pid) throws IOException {
        try (Stream<Path> threads = Files.list(Path.of("/proc/" + pid + "/task"))) {
            for (Path thread : threads.toList()) {
                if (Files.readString(thread.resolve("wchan")).contains("userfault")) {
                    return true;
                }
            }
        }
        return false;
    }

    /** Continues the copy's processes, and waits until one is blocked at a page that is missing. */
    private void continueCopy() throws Exception {
        for (long copy : processes(COPY)) {
            signal("CONT", copy);
        }
        Conditions.until(LIMIT, "the copy waits for a page", this::hasWaiting);
    }

    /** Ends the waiting copy. Its holder ends then, too. */
    private void requireNothingRan(String before) throws Exception {
        continueCopy();
        assertEquals(before, turns());
        assertTrue(hasWaiting(), "the copy continued without its pages");
        // The kernel may have ended one with its parent by then.
        processes(COPY).forEach(copy -> ProcessHandle.of(copy).ifPresent(ProcessHandle::destroyForcibly));
        Conditions.until(
                LIMIT,
                "the copy and its holder ended",
                () -> processes(COPY).isEmpty() && processes("ppmr-holder").isEmpty());
    }

    @Test
    void shouldBlockACopyThatIsContinuedWhenTheFillerWasKilled() throws Exception {
        restore();
        String before = turns();
        signal("KILL", only("ppmr-pages"));
        Conditions.until(
                LIMIT, "the filler ended", () -> processes("ppmr-pages").isEmpty());
        requireNothingRan(before);
    }

    @Tag("soak")
    @Test
    void shouldBlockACopyThatIsContinuedWhenTheHolderWasKilled() throws Exception {
        restore();
        String before = turns();
        signal("KILL", only("ppmr-holder"));
        Conditions.until(LIMIT, "the filler ended", () -> isWritten("status"));
        assertEquals("1", Files.readString(directory.resolve("status")).strip());
        assertTrue(
                Files.readString(directory.resolve("error"))
                        .contains("the holder of the copies' memory was killed by signal 9"),
                Files.readString(directory.resolve("error")));
        requireNothingRan(before);
    }

    /** A shell makes a file before it writes into it. */
    private boolean isWritten(String name) throws IOException {
        Path file = directory.resolve(name);
        return Files.exists(file) && Files.readString(file).endsWith("\n");
    }

    @Test
    void shouldGiveTheCopyEveryByteWhenItIsContinuedBeforeItsPagesAreThere() throws Exception {
        restore();
        continueCopy();
        write(pages.length - written);
        Conditions.until(LIMIT, "the copy is whole", () -> isWritten("status"));
        assertEquals(
                "0",
                Files.readString(directory.resolve("status")).strip(),
                Files.readString(directory.resolve("error")));
        assertEquals(List.of(), processes("ppmr-holder"));
        Files.writeString(directory.resolve("cue"), "");
        Conditions.until(LIMIT, "the copy ended", () -> isWritten("out"));
        List<String> undisturbed = new ArrayList<>(WORDS);
        undisturbed.add("--expect");
        assertEquals(
                Command.of(undisturbed).run(LIMIT).output().strip(),
                Files.readString(directory.resolve("out")).strip());
    }

    @Tag("soak")
    @Test
    void shouldEndTheHolderWhenItIsStopped() throws Exception {
        restore();
        signal("STOP", only("ppmr-holder"));
        write(pages.length - written);
        Conditions.until(LIMIT, "the filler ended", () -> isWritten("status"));
        assertEquals("0", Files.readString(directory.resolve("status")).strip());
        assertEquals(List.of(), processes("ppmr-holder"));
    }

    @Test
    void shouldFailByNameWhenTheStreamEndsBeforeTheLastPage() throws Exception {
        restore();
        String before = turns();
        stream.close();
        Conditions.until(LIMIT, "the filler ended", () -> isWritten("status"));
        assertEquals("1", Files.readString(directory.resolve("status")).strip());
        assertTrue(
                Files.readString(directory.resolve("error")).contains("pages.stream ends before page"),
                Files.readString(directory.resolve("error")));
        requireNothingRan(before);
    }
}
