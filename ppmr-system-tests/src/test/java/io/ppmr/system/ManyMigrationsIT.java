package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.migration.source.MigrationReport;
import io.ppmr.migration.source.SourceService;
import io.ppmr.migration.target.TargetService;
import io.ppmr.testbed.Conditions;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Migrations one after another through the same two services, some of which fail on purpose. No resource of them
 * remains.
 */
@Tag("soak")
class ManyMigrationsIT {
    private static final Logger LOG = LoggerFactory.getLogger(ManyMigrationsIT.class);
    private static final int WARM_UP = 4;
    private static final int KINDS = 4;
    /** Compiled code and the like, which the first hundreds of migrations bring: a leak of memory is in the heap. */
    private static final long MOST_RESIDENT_KIB = 96 << 10;

    private static final long MOST_HEAP_KIB = 2 << 10;

    @TempDir
    private Path directory;

    /** The resources that this process and its services have at a moment when no migration is under way. */
    private record Belongings(long descriptors, long threads, long mounts, long files, long residentKib, long heapKib) {
        static Belongings now(Path directory) throws IOException {
            System.gc();
            return new Belongings(
                    count(Path.of("/proc/self/fd")),
                    count(Path.of("/proc/self/task")),
                    Files.readAllLines(Path.of("/proc/self/mountinfo")).stream()
                            .filter(line -> line.contains(" " + directory + "/"))
                            .count(),
                    under(directory, "source")
                            + under(directory, "target")
                            + under(directory, "source-work")
                            + under(directory, "target-work")
                            + under(directory, "source-journal")
                            + under(directory, "target-journal")
                            + staging(),
                    rssKib(),
                    heapInUseKib());
        }

        private static long count(Path folder) throws IOException {
            try (Stream<Path> entries = Files.list(folder)) {
                return entries.count();
            }
        }

        private static long staging() throws IOException {
            try (Stream<Path> entries = Files.list(Path.of("/dev/shm"))) {
                return entries.filter(entry -> entry.getFileName().toString().startsWith("ppmr"))
                        .filter(entry -> isOf(entry, ProcessHandle.current().pid()))
                        .count();
            }
        }

        private static boolean isOf(Path entry, long pid) {
            return entry.getFileName().toString().contains(Long.toString(pid));
        }

        private static long under(Path directory, String name) throws IOException {
            try (Stream<Path> entries = Files.walk(directory.resolve(name))) {
                return entries.count();
            }
        }

        /** Returns the used heap after a collection of unreachable objects. */
        private static long heapInUseKib() {
            System.gc();
            return (Runtime.getRuntime().totalMemory() - Runtime.getRuntime().freeMemory()) >> 10;
        }

        private static long rssKib() throws IOException {
            for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
                if (line.startsWith("VmRSS:")) {
                    return Long.parseLong(line.replaceAll("[^0-9]", ""));
                }
            }
            throw new IOException("no VmRSS");
        }

        /** Returns true if there is hardly more than there was. */
        boolean isNoMoreThan(Belongings before) {
            return descriptors <= before.descriptors + 2
                    && threads <= before.threads + 2
                    && mounts <= before.mounts
                    && files <= before.files
                    && residentKib <= before.residentKib + MOST_RESIDENT_KIB
                    && heapKib <= before.heapKib + MOST_HEAP_KIB;
        }
    }

    @Test
    @Timeout(value = 300, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
    void shouldKeepNothingWhenTwentyFollowOneAnother() throws Exception {
        migrate(20);
    }

    @Test
    @Timeout(value = 3000, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
    void shouldKeepNothingWhenTwoHundredFollowOneAnother() throws Exception {
        migrate(200);
    }

    private void migrate(int count) throws Exception {
        // The services' restores find their scripts by this folder, in which one job follows the other.
        Path at = directory.resolve("job");
        try (Nodes nodes = new Nodes(directory)) {
            TargetService target;
            try (LedgerJob any = new LedgerJob(at, 2)) {
                target = nodes.target("target", any.checkpointer());
            }
            SourceService source = nodes.source("source", Duration.ofMinutes(5), target.address());
            for (int i = 0; i < WARM_UP; i++) {
                one(source, at, i);
            }
            Belongings before = Belongings.now(directory);
            for (int i = WARM_UP; i < count; i++) {
                one(source, at, i);
            }
            Belongings[] last = new Belongings[1];
            try {
                Conditions.until("what the migrations had is given back", () -> {
                    last[0] = Belongings.now(directory);
                    return last[0].isNoMoreThan(before);
                });
            } catch (AssertionError e) {
                throw new AssertionError(e.getMessage() + ": before " + before + ", after " + last[0], e);
            }
            LOG.info("{} migrations: before {}, after {}", count, before, last[0]);
        }
    }

    /** Every fourth fails when restarting, and every fourth when checkpointing. The others succeed. */
    private void one(SourceService source, Path at, int number) throws Exception {
        LedgerJob.clear(at);
        try (LedgerJob job = new LedgerJob(at, 2)) {
            int kind = number % KINDS;
            if (kind == 1) {
                job.restarts(1, "read 1m", "open missing r");
            } else if (kind == 2) {
                job.checkpoints(0, "write 1m", "open missing r");
            }
            MigrationReport report = source.migrate(job.job(), progress -> {});
            boolean fails = kind == 1 || kind == 2;
            assertEquals(
                    fails ? MigrationReport.Outcome.ROLLED_BACK : MigrationReport.Outcome.COMMITTED,
                    report.outcome(),
                    report.reason());
            if (fails) {
                job.runsHere();
            } else {
                job.runsThere();
            }
            Conditions.until(
                    "only the two ranks are left of " + number,
                    () -> job.programs().size() <= 2);
            assertTrue(job.programs().size() == 2, "one process a rank");
        }
    }
}
