package io.ppmr.system;

import static io.ppmr.system.KillablePair.SOURCE;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.testbed.Conditions;
import io.ppmr.transaction.journal.TransactionRecord;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * A job whose ranks have a cgroup of version 2 of their own. The cgroup's freezer also holds them while they are moved.
 */
@Timeout(value = 180, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class FreezerIT {
    @TempDir
    private Path directory;

    private Path cgroup;

    @BeforeEach
    void makeCgroup() throws IOException {
        Path mount = Files.readAllLines(Path.of("/proc/self/mountinfo")).stream()
                .filter(line -> line.contains(" - cgroup2 "))
                .map(line -> Path.of(line.split(" ", -1)[4]))
                .findFirst()
                .orElse(null);
        Assumptions.assumeTrue(mount != null && Files.isWritable(mount), "no cgroups of version 2 that can be written");
        cgroup = Files.createDirectory(
                mount.resolve("ppmr-job-" + ProcessHandle.current().pid()));
    }

    @AfterEach
    void removeCgroup() throws Exception {
        if (cgroup != null) {
            write("cgroup.freeze", "0");
            Conditions.until("the job's processes are gone", () -> Files.readString(cgroup.resolve("cgroup.procs"))
                    .isEmpty());
            Files.delete(cgroup);
        }
    }

    private void write(String file, String text) throws IOException {
        Files.writeString(cgroup.resolve(file), text, StandardOpenOption.WRITE);
    }

    private boolean isFrozen() throws IOException {
        return Files.readString(cgroup.resolve("cgroup.events")).contains("frozen 1");
    }

    /** The job is held: its images are whole, and one rank's restart waits for the mark "go". */
    private String held(KillablePair pair, LedgerJob job) throws Exception {
        for (int rank = 0; rank < 2; rank++) {
            write("cgroup.procs", Long.toString(job.pid(rank)));
        }
        job.restarts(1, "read 1m", "eof", "touch " + job.mark("read"), "await " + job.mark("go"));
        String id = pair.migrate();
        job.awaitMark("read");
        pair.awaitRecord(SOURCE, id, TransactionRecord.Sealed.class);
        Conditions.until("the job's cgroup is frozen", this::isFrozen);
        return id;
    }

    @Tag("soak")
    @Test
    void shouldRunNoFurtherStepWhenItsUserContinuesARankThatIsHeld() throws Exception {
        Path folder = Files.createTempDirectory(directory, "pair");
        try (KillablePair pair = new KillablePair(folder, "");
                LedgerJob job = pair.job()) {
            String id = held(pair, job);
            LedgerJob.goOn(job.pid(0));
            Conditions.until("the signal has come", () -> !LedgerJob.isStopped(job.pid(0)));
            job.standsStill();
            job.set("go");
            // No check distinguishes a continued rank from a rank that ran. It is not moved, and continues.
            pair.awaitRecord(SOURCE, id, TransactionRecord.RollBackDecided.class);
            job.runsHere();
            assertFalse(isFrozen());
        }
    }

    @Tag("soak")
    @Test
    void shouldThawWhatItHadFrozenWhenTheSourceIsKilledAndStartedAgain() throws Exception {
        Path folder = Files.createTempDirectory(directory, "pair");
        try (KillablePair pair = new KillablePair(folder, "");
                LedgerJob job = pair.job()) {
            held(pair, job);
            pair.service(SOURCE).kill();
            job.standsStill();
            assertTrue(isFrozen());
            pair.start(SOURCE);
            job.runsHere();
            assertFalse(isFrozen());
        }
    }

    @Tag("soak")
    @Test
    void shouldLeaveNothingFrozenWhenTheJobIsMoved() throws Exception {
        Path folder = Files.createTempDirectory(directory, "pair");
        try (KillablePair pair = new KillablePair(folder, "");
                LedgerJob job = pair.job()) {
            String id = held(pair, job);
            job.set("go");
            job.runsThere();
            pair.awaitRecord(SOURCE, id, TransactionRecord.Done.class);
            assertEquals("0", Files.readString(cgroup.resolve("cgroup.freeze")).strip());
        }
    }
}
