package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.migration.source.MigrationReport.Outcome;
import java.nio.file.Files;
import java.nio.file.Path;
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

    @TempDir
    private Path directory;

    private MigrationReport move(Checkpointer criu) throws Exception {
        try (CriuJob job = CriuJob.start(directory, TURNS);
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
        String making = "use IPC::SysV qw(IPC_CREAT IPC_RMID); my @keys = (-1627324413, -2147483648);"
                + " my (@m, @s, @q); for my $k (@keys) {"
                + " my $m = shmget($k, 4096, 0600 | IPC_CREAT); push @m, $m if defined $m;"
                + " my $s = semget($k, 2, 0600 | IPC_CREAT); push @s, $s if defined $s;"
                + " my $q = msgget($k, 0600 | IPC_CREAT); push @q, $q if defined $q;"
                + " die \"$!\" unless defined $m && defined $s && defined $q; }";
        String removing = "shmctl($_, IPC_RMID, 0) for @m; semctl($_, 0, IPC_RMID, 0) for @s;"
                + " msgctl($_, IPC_RMID, 0) for @q;";
        try (Neighbour neighbour = Neighbour.start(directory.resolve("neighbour"), making, removing)) {
            for (String table : List.of("shm", "sem", "msg")) {
                assertTrue(
                        Files.readString(Path.of("/proc/sysvipc", table)).contains("-1627324413"),
                        "another user has an object with a negative key: " + table);
            }
            MigrationReport report = move(CriuJob.criu());
            assertEquals(Outcome.COMMITTED, report.outcome(), report.reason());
        }
    }
}
