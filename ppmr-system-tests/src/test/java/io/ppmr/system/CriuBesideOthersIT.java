package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.migration.source.MigrationReport.Outcome;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Patience;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** A job is moved by real CRIU while another user of the node has what the kernel lists in tables of all users. */
@Timeout(value = 90, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class CriuBesideOthersIT {
    private static final String TURNS = "setsid perl -e 'open(T,\">>\",\"turns\") or die; select((select(T),$|=1)[0]);"
            + " while (1) { print T \"x\"; select(undef,undef,undef,0.02) }'";

    private static final int LOCKED_FILES = 200;
    private static final int LOCKS_A_FILE = 800;
    private static final Duration SOON = Patience.of(Duration.ofSeconds(20));

    @TempDir
    private Path directory;

    private MigrationReport move(Checkpointer criu, String line) throws Exception {
        try (CriuJob job = CriuJob.start(directory, line);
                ServicePair pair = new ServicePair(
                        directory,
                        ServicePair.Options.with(criu).alsoRootsJobs().staging(64 << 20))) {
            job.requireTurns();
            MigrationReport report = job.migrate(pair, criu);
            job.requireTurns();
            return report;
        }
    }

    /** A key with its highest bit set, as half of those of ftok(3) have it, is negative in the kernel's tables. */
    @Test
    void shouldMoveAJobWhenAnotherUserHasSystemVObjectsWithNegativeKeys() throws Exception {
        String making = "my @keys = map { -1 - int rand 2147483647 } 1..2;"
                + " for my $k (@keys) {"
                + " my $m = shmget($k, 4096, 0600 | IPC_CREAT); push @m, $m if defined $m;"
                + " my $s = semget($k, 2, 0600 | IPC_CREAT); push @s, $s if defined $s;"
                + " my $q = msgget($k, 0600 | IPC_CREAT); push @q, $q if defined $q;"
                + " die \"$!\" unless defined $m && defined $s && defined $q; }";
        String removing = "shmctl($_, IPC_RMID, 0) for @m; semctl($_, 0, IPC_RMID, 0) for @s;"
                + " msgctl($_, IPC_RMID, 0) for @q;";
        try (Neighbour neighbour = Neighbour.start(directory.resolve("neighbour"), making, removing)) {
            assertEquals(List.of("shm", "sem", "msg"), tablesWithNegativeKeys());
            MigrationReport report = move(CriuJob.criu(), TURNS);
            assertEquals(Outcome.COMMITTED, report.outcome(), report.reason());
        }
        Conditions.until("nothing of the neighbour is left", () -> tablesWithNegativeKeys()
                .isEmpty());
    }

    private static List<String> tablesWithNegativeKeys() throws IOException {
        List<String> tables = new ArrayList<>();
        for (String table : List.of("shm", "sem", "msg")) {
            if (Files.readAllLines(Path.of("/proc/sysvipc", table)).stream()
                    .anyMatch(row -> row.matches(" *-\\d+ .* " + Neighbour.UID + " .*"))) {
                tables.add(table);
            }
        }
        return tables;
    }

    /** The kernel needs minutes to write its table of all locks when it has that many. */
    @Test
    void shouldSaySoonThatAJobHasALockWhenAnotherUserHasManyLocks() throws Exception {
        Path locked = Files.createDirectory(directory.resolve("locked"));
        Files.setAttribute(locked, "unix:uid", Neighbour.UID);
        String making = "my @files; for my $i (1.." + LOCKED_FILES + ") {"
                + " open(my $f, '+>', '" + locked + "/' . $i) or die \"$!\"; push @files, $f;"
                + " for my $at (1.." + LOCKS_A_FILE + ") {"
                + " fcntl($f, F_SETLK, pack('s s x4 q q l x4', F_WRLCK, 0, 2 * $at, 1, 0)) or die \"$!\" } }";
        Files.setPosixFilePermissions(directory, PosixFilePermissions.fromString("rwxr-xr-x"));
        Checkpointer criu = CriuJob.criu("--file-locks");
        String job = "setsid " + System.getProperty("ppmr.demo.dir") + "/kinds-job locks .";
        try (Neighbour neighbour = Neighbour.start(directory.resolve("neighbour"), making, "")) {
            long startNs = System.nanoTime();
            MigrationReport report = move(criu, job);
            assertEquals(Outcome.REFUSED, report.outcome(), report.reason());
            assertTrue(report.reason().contains("holds a lock (FLOCK WRITE)"), report.reason());
            assertTrue(
                    System.nanoTime() - startNs < SOON.toNanos(),
                    "it has taken " + TimeUnit.NANOSECONDS.toSeconds(System.nanoTime() - startNs) + " s");
        }
    }
}
