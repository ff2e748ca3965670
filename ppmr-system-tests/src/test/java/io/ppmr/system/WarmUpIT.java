package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.bufferpool.PoolGeometry;
import io.ppmr.checkpoint.OrphanedCommand;
import io.ppmr.daemon.warmup.WarmUp;
import io.ppmr.testbed.Conditions;
import io.ppmr.transaction.journal.MappedJournal;
import io.ppmr.transaction.journal.TransactionRecord;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** The warm-up makes real migrations, keeps its time limit, and always removes all its resources. */
@Timeout(value = 240, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class WarmUpIT {
    private static final Duration LONG = Duration.ofMinutes(2);
    private static final int ENDLESS = 1_000_000;
    private static final PoolGeometry POOL = new PoolGeometry(128 * 1024, 64);
    private static final Path MOUNTS = Path.of("/proc/self/mountinfo");

    @TempDir
    private Path directory;

    @AfterEach
    void endCopies() throws Exception {
        OrphanedCommand.endMarked(directory);
    }

    /** A service that is killed in its warm-up. */
    static final class Killed {
        private Killed() {}

        public static void main(String[] arguments) throws Exception {
            Path directory = Path.of(arguments[1]);
            try (WarmUp warmUp = new WarmUp(arguments[0], directory, directory.resolve("journal"), POOL, LONG)) {
                warmUp.run(ENDLESS);
            }
        }
    }

    /** Runs a warm-up to its end, and returns the number of its migrations. */
    private int run(Path workDirectory, int migrations, Duration limit) throws InterruptedException {
        try (WarmUp warmUp = new WarmUp("test", workDirectory, directory.resolve("journal"), POOL, limit)) {
            return warmUp.run(migrations);
        }
    }

    private void assertNothingIsLeft() throws IOException {
        try (Stream<Path> names = Files.list(directory)) {
            assertEquals(
                    List.of("journal"),
                    names.map(name -> name.getFileName().toString()).toList());
        }
        assertTrue(mounts().isEmpty(), mounts()::toString);
    }

    private List<String> mounts() throws IOException {
        return Files.readAllLines(MOUNTS).stream()
                .filter(line -> line.contains(" " + directory + "/"))
                .toList();
    }

    @Test
    void shouldMoveProcessesAndLeaveNothingWhenThereIsTime() throws Exception {
        assertEquals(2, run(directory, 2, LONG));
        assertNothingIsLeft();
    }

    @Tag("soak")
    @Test
    void shouldEndAtItsLimitAndLeaveNothingWhenThereIsMoreToDo() throws Exception {
        for (int seconds = 1; seconds <= 4; seconds++) {
            int moved = run(directory, ENDLESS, Duration.ofSeconds(seconds));
            assertTrue(moved < ENDLESS, moved + " migrations");
            assertNothingIsLeft();
        }
    }

    private void killOneInItsWarmUp(String service, Path workDirectory) throws Exception {
        List<String> words = new ArrayList<>(List.of(System.getProperty("java.home") + "/bin/java"));
        words.addAll(ManagementFactory.getRuntimeMXBean().getInputArguments());
        // The build passes its properties to the tests' JVM in a file, not as arguments.
        words.add("-Dppmr.native.dir=" + System.getProperty("ppmr.native.dir"));
        words.addAll(List.of("-cp", System.getProperty("java.class.path"), Killed.class.getName()));
        words.addAll(List.of(service, workDirectory.toString()));
        Process killed = new ProcessBuilder(words)
                .redirectErrorStream(true)
                .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                .start();
        try {
            while (mounts().isEmpty() || copies().isEmpty()) {
                assertTrue(killed.isAlive(), "it has ended by itself");
                LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(5));
            }
        } finally {
            killed.destroyForcibly().waitFor();
        }
        assertFalse(mounts().isEmpty(), "a killed service leaves its mounts");
    }

    @Tag("soak")
    @Test
    void shouldClearWhatIsLeftWhenAnEarlierServiceWasKilledInIt() throws Exception {
        // Its copies live only briefly, so this is repeated until copies outlive the service.
        Conditions.until("a service is killed that has copies", () -> {
            killOneInItsWarmUp("test", directory);
            return !copies().isEmpty();
        });
        assertEquals(1, run(directory, 1, LONG));
        assertNothingIsLeft();
        assertEquals(List.of(), copies());
    }

    /** The copies in the warm-up's folder, and what restores them. */
    private List<String> copies() {
        return ProcessHandle.allProcesses()
                .map(process -> commandLine(process.pid()))
                .filter(line -> line.contains(directory + "/") && line.contains("/scratch/restart-"))
                .toList();
    }

    private static String commandLine(long pid) {
        try {
            return Files.readString(Path.of("/proc/" + pid + "/cmdline"), StandardCharsets.ISO_8859_1);
        } catch (IOException gone) {
            return "";
        }
    }

    @Tag("soak")
    @Test
    void shouldTakeMountsOffByCommandWhenAServiceWasKilledInIt() throws Exception {
        Path work = Files.createDirectory(directory.resolve("work"));
        Files.writeString(directory.resolve("target.toml"), """
                unknown_users = true
                listen = "127.0.0.1:7411"
                mount = "%1$s/mount"
                work_directory = "%1$s/work"
                """.formatted(directory));
        killOneInItsWarmUp("target", work);
        try (RealServices services = new RealServices(directory)) {
            String said = services.command("unmount", "target", List.of());
            assertTrue(said.startsWith("0\n"), said);
            Path dead = work.resolve(".warm-up-target/target");
            assertTrue(said.contains(dead + " was a dead mount and is cleared"), said);
        }
        assertTrue(mounts().isEmpty(), mounts()::toString);
    }

    @Tag("soak")
    @Test
    void shouldMoveNothingWhenRanksWaitForTheService() throws Exception {
        try (MappedJournal journal = MappedJournal.in(directory.resolve("journal"))) {
            journal.appendSynced(new TransactionRecord.Begun("open", 1, List.of("a:7"), List.of()));
        }
        assertEquals(0, run(directory, 2, LONG));
        assertNothingIsLeft();
    }

    @Tag("soak")
    @Test
    void shouldSayOneLineAndBeReadyWhenItFails() throws Exception {
        Path inItsWay = directory.resolve("target-work/.warm-up-target");
        Files.createDirectories(inItsWay.getParent());
        Files.createFile(inItsWay);
        try (ReplayJob job = new ReplayJob(directory).rank(List.of("pause 1"), List.of("pause 1"));
                RealServices services = new RealServices(directory)) {
            services.startTarget(job);
            String log = services.log("target");
            List<String> said = log.lines()
                    .filter(line -> line.contains("the warm-up failed after 0 migrations"))
                    .toList();
            assertEquals(1, said.size(), log);
            assertTrue(said.get(0).contains(inItsWay.toString()), log);
            assertTrue(said.get(0).contains("the service continues without it"), log);
            assertFalse(log.contains("\tat "), log);
        }
    }

    @Tag("soak")
    @Test
    void shouldBeReadyInTimeAndMoveAJobWhenServicesAreCutOffInTheirWarmUp() throws Exception {
        Pattern cutOff = Pattern.compile("warm-up: stopped after (\\d+) of 100 migrations in ([0-9.]+) s");
        // Interpreted, they are as slow as on a slow node. A hundred would take far longer than the limit.
        try (ReplayJob job = new ReplayJob(directory)
                        .rank(
                                List.of("open image wcx", "write 300000", "close"),
                                List.of("open image r", "read 300000"));
                RealServices services =
                        new RealServices(directory).warmUpMigrations(100).javaOption("-Xint")) {
            services.startTarget(job);
            services.startSource(job);
            for (String role : List.of("target", "source")) {
                String log = services.log(role);
                List<MatchResult> said = cutOff.matcher(log).results().toList();
                assertEquals(1, said.size(), log);
                assertTrue(Integer.parseInt(said.get(0).group(1)) < 100, log);
                assertFalse(log.contains("fuse: "), () -> "a message of libfuse in " + log);
                // It needs 5 s, and some time for the cancellation.
                assertTrue(Double.parseDouble(said.get(0).group(2)) < 7, log);
            }
            assertEquals(0, services.migrate(directory.resolve("report.json"), "replay"), () -> logs(services));
        }
    }

    private static String logs(RealServices services) {
        try {
            return services.log("migrate") + services.log("source") + services.log("target");
        } catch (IOException e) {
            return e.toString();
        }
    }
}
