package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.migration.source.MigrationReport;
import io.ppmr.migration.source.MigrationReport.Outcome;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** An ERROR in the log means that something has failed: an operator is woken by it. */
@Timeout(value = 240, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class FalseAlarmIT {
    private static final int TIMES = 8;
    private static final Pattern MIGRATION = Pattern.compile("migration (\\S+):");

    private final PrintStream ordinary = System.err;
    private final ByteArrayOutputStream log = new ByteArrayOutputStream();

    @TempDir
    private Path directory;

    @BeforeEach
    void listen() throws Exception {
        // The job's user passes through.
        Files.setPosixFilePermissions(directory, PosixFilePermissions.fromString("rwxr-xr-x"));
        System.setErr(new PrintStream(log, true, StandardCharsets.UTF_8));
    }

    @AfterEach
    void listenNoMore() {
        System.setErr(ordinary);
    }

    private ReplayJob job(Path folder) throws Exception {
        return new ReplayJob(folder)
                .rank(List.of("open image wcx", "write 4m 64k", "close"), List.of("open image r", "read 4m", "eof"));
    }

    /**
     * A job of an earlier test in this JVM waits for an operator without a limit. The log repeats that periodically.
     */
    private static boolean isOfAnother(String line, String migrationId) {
        Matcher named = MIGRATION.matcher(line);
        return named.find() && !named.group(1).equals(migrationId);
    }

    private void requireNoError(MigrationReport report) {
        String said = log.toString(StandardCharsets.UTF_8);
        List<String> errors = said.lines()
                .filter(line -> line.contains(" ERROR ") && !isOfAnother(line, report.migrationId()))
                .toList();
        assertEquals(List.of(), errors, said);
    }

    @Test
    void shouldLogNoErrorWhenMigrationsCommit() throws Exception {
        for (int i = 0; i < TIMES; i++) {
            Path folder = Files.createDirectory(directory.resolve("commit-" + i));
            MigrationReport report;
            try (ReplayJob job = job(folder);
                    ServicePair pair = new ServicePair(folder, ServicePair.Options.with(job.checkpointer()))) {
                report = job.commits(pair);
            }
            requireNoError(report);
        }
    }

    @Tag("soak")
    @Test
    void shouldLogNoErrorWhenMigrationsAreCalledOff() throws Exception {
        for (int i = 0; i < TIMES; i++) {
            Path folder = Files.createDirectory(directory.resolve("cancel-" + i));
            MigrationReport report;
            try (ReplayJob job = new ReplayJob(folder)
                            .rank(
                                    List.of("open image wcx", "write 4m 64k", "pause 20000", "close"),
                                    List.of("open image r", "read 4m", "eof"));
                    ServicePair pair = new ServicePair(folder, ServicePair.Options.with(job.checkpointer()))) {
                report = job.cancelledAt(pair, 2 << 20);
                assertEquals(Outcome.ROLLED_BACK, report.outcome());
                assertTrue(report.reason().contains("called it off"), report.reason());
            }
            requireNoError(report);
        }
    }
}
