package io.ppmr.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.linux.Command;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/**
 * Tests the C programs, built with the address and undefined-behaviour sanitizers. A finding ends them with a special
 * status.
 */
@Timeout(600)
class SanitizedProgramsIT {
    private static final Duration LIMIT = Duration.ofSeconds(240L * Integer.getInteger("ppmr.patience", 1));

    private static final List<String> USED =
            List.of("selfckpt-job", "plain-job", "cr_checkpoint", "cr_restart", "pages-fuzz", "report-orders");

    private static Path base;

    private Process job;

    /** Beside other work the compiler needs more than the usual limit. */
    @BeforeAll
    @Timeout(600)
    static void build() throws Exception {
        Assumptions.assumeTrue(SanitizedHelpersIT.sanitizersWork(), "gcc has no address sanitizer here (libasan8)");
        base = Files.createTempDirectory("ppmr-sanitized");
        make("main", "all");
        for (String program : USED) {
            make("test", base.resolve(program).toString());
        }
    }

    private static void make(String part, String target) throws CheckpointException {
        Command.CommandResult made = CommandStarter.call(
                List.of(
                        "make",
                        "--silent",
                        "-C",
                        "src/" + part + "/c",
                        "OUT=" + base,
                        // The sanitizers' library is a shared one. Optimized, they take twice as long to build.
                        "STATIC=",
                        "CFLAGS=-O0 -std=gnu17 -Wall -Wextra -Werror -pthread -fsanitize=address,undefined"
                                + " -fno-sanitize-recover=all",
                        target),
                LIMIT);
        assertEquals(0, made.exitCode(), made.output());
    }

    @AfterEach
    void endJob() throws Exception {
        if (job != null) {
            job.destroyForcibly().waitFor();
        }
    }

    @AfterAll
    static void clean() throws Exception {
        if (base != null) {
            SanitizedHelpersIT.remove(base);
        }
    }

    private String run(String... command) throws CheckpointException {
        return runAfter(new String[0], command);
    }

    private String runAfter(String[] before, String... command) throws CheckpointException {
        List<String> words = new ArrayList<>(List.of(before));
        words.add(base.resolve(command[0]).toString());
        words.addAll(List.of(command).subList(1, command.length));
        Command.CommandResult result = CommandStarter.call(words, LIMIT);
        assertEquals(0, result.exitCode(), result.output());
        return result.output();
    }

    @Test
    void shouldFindNothingInACheckpointAndARestart() throws Exception {
        String[] size = {"--size", "4m", "--passes", "20", "--seed", "4"};
        String expected = run("selfckpt-job", size[0], size[1], size[2], size[3], size[4], size[5], "--expect");
        Path out = base.resolve("out");
        Path image = base.resolve("image");
        job = new ProcessBuilder(
                        base.resolve("selfckpt-job").toString(),
                        "--pace",
                        "50",
                        size[0],
                        size[1],
                        size[2],
                        size[3],
                        size[4],
                        size[5],
                        "--out",
                        out.toString(),
                        "--progress",
                        base.resolve("progress").toString())
                .redirectErrorStream(true)
                .redirectOutput(base.resolve("job.log").toFile())
                .start();
        assertTrue(Polling.until(LIMIT, () -> hasContent(base.resolve("progress"))));
        run("cr_checkpoint", "-T", "--noclobber", "--run", "-f", image.toString(), Long.toString(job.pid()));
        assertTrue(job.waitFor(60, TimeUnit.SECONDS));
        assertEquals(0, job.exitValue(), () -> "see the sanitizer's words: " + base);
        assertEquals(expected, Files.readString(out).trim());
        Files.delete(out);
        run("cr_restart", "--no-restore-pid", "--run-on-success=true", image.toString());
        assertEquals(expected, Files.readString(out).trim());
    }

    @Test
    void shouldFindNothingInThePlainJobAndTheHelpers() throws Exception {
        Path out = base.resolve("plain.out");
        run(
                "plain-job",
                "--size",
                "4m",
                "--passes",
                "5",
                "--seed",
                "4",
                "--threads",
                "3",
                "--out",
                out.toString(),
                "--progress",
                base.resolve("plain.progress").toString());
        assertEquals(
                run("plain-job", "--size", "4m", "--passes", "5", "--seed", "4", "--threads", "3", "--expect"),
                Files.readString(out).trim());
        assertEquals("hello", run("ppmr-launch", "--", "echo", "hello"));
        assertEquals("20001", run("ppmr-launch", "--uid", "20001", "--gid", "20001", "--", "id", "-G"));
        assertEquals(
                "20001 7 8",
                run("ppmr-launch", "--uid", "20001", "--gid", "20001", "--groups", "7,8,20001", "--", "id", "-G"));
        // The search for leaks starts a thread, which cannot be in another PID namespace than its process.
        String[] withoutLeaks = {"env", "ASAN_OPTIONS=detect_leaks=0"};
        String init = runAfter(withoutLeaks, "ppmr-rank-init", "--grace", "30");
        String probe = base.resolve("plain-job").toString();
        assertEquals(
                "/usr",
                runAfter(
                        withoutLeaks,
                        "ppmr-launch",
                        "--enter",
                        init,
                        "--directory",
                        "/usr",
                        "--same",
                        probe,
                        "--",
                        "pwd"));
    }

    @Test
    void shouldTakeOrRefuseByASentenceWhenImagesListsAndQuestionsAreDamaged() throws Exception {
        System.out.println(run("pages-fuzz", "3000"));
    }

    @Test
    @Tag("soak")
    @Timeout(1200)
    void shouldTakeOrRefuseByASentenceWhenManyImagesListsAndQuestionsAreDamaged() throws Exception {
        Command.CommandResult result =
                CommandStarter.call(List.of(base.resolve("pages-fuzz").toString(), "1000000"), Duration.ofMinutes(20));
        assertEquals(0, result.exitCode(), result.output());
        System.out.println(result.output());
    }

    @Test
    void shouldKnowTheMissingPagesOfACopyInEveryOrderOfItsReports() throws Exception {
        System.out.println(run("report-orders", "600"));
    }

    @Test
    @Tag("soak")
    @Timeout(1200)
    void shouldKnowTheMissingPagesOfACopyInManyOrdersOfItsReports() throws Exception {
        Command.CommandResult result = CommandStarter.call(
                List.of(base.resolve("report-orders").toString(), "20000", "100000"), Duration.ofMinutes(20));
        assertEquals(0, result.exitCode(), result.output());
        System.out.println(result.output());
    }

    private static boolean hasContent(Path file) {
        try {
            return Files.exists(file) && Files.size(file) > 0;
        } catch (IOException e) {
            return false;
        }
    }
}
