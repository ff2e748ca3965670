package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.migration.source.MigrationReport;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * CRIU's calls, one by one: a dozen files, the pages by splice, the inventory last. The restore opens the inventory
 * first and reads the pages at one go.
 */
@Timeout(value = 60, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class CriuPatternIT {
    private static final int ENOENT = 2;
    private static final long PAGES = 48 << 20;
    private static final List<String> NEVER_WRITTEN = List.of(
            "irmap-cache",
            "cpuinfo.img",
            "netns.img",
            "mnt.img",
            "userns.img",
            "ipcns-ipc.img",
            "utsns.img",
            "cgroup.img",
            "remap-fpath.img",
            "tty-info.img",
            "filelocks.img",
            "stats-dump.img",
            "restore.log");

    @TempDir
    private Path directory;

    private static List<String> dump() {
        List<String> calls = new ArrayList<>();
        NEVER_WRITTEN.forEach(name -> calls.add("fails " + ENOENT + " unlink " + name));
        small(calls, "seccomp.img", 40);
        small(calls, "files.img", 9_000);
        small(calls, "ids-1.img", 60);
        small(calls, "fdinfo-2.img", 200);
        small(calls, "pagemap-1.img", 700);
        calls.addAll(List.of("seed 5", "open pages-1.img wct", "splice " + PAGES + " 1m", "close"));
        small(calls, "core-1.img", 1_900);
        small(calls, "mm-1.img", 2_400);
        small(calls, "fs-1.img", 30);
        small(calls, "pstree.img", 44);
        small(calls, "timens-0.img", 50);
        small(calls, "inventory.img", 90);
        return calls;
    }

    /** A magic number, then records of a few bytes each. */
    private static void small(List<String> calls, String name, int bytes) {
        calls.addAll(
                List.of("seed " + bytes, "open " + name + " wct", "write 4", "write " + (bytes - 4) + " 21", "close"));
    }

    private static void readSmall(List<String> calls, String name, int bytes) {
        calls.addAll(List.of(
                "seed " + bytes, "open " + name + " r", "read 4", "read " + (bytes - 4) + " 17", "eof", "close"));
    }

    private static List<String> restore() {
        List<String> calls = new ArrayList<>();
        readSmall(calls, "inventory.img", 90);
        NEVER_WRITTEN.subList(0, 11).forEach(name -> calls.add("fails " + ENOENT + " open " + name + " r"));
        readSmall(calls, "pstree.img", 44);
        readSmall(calls, "ids-1.img", 60);
        readSmall(calls, "files.img", 9_000);
        readSmall(calls, "core-1.img", 1_900);
        calls.addAll(List.of("open pagemap-1.img r", "fsize 700", "size pages-1.img " + PAGES));
        readSmall(calls, "pagemap-1.img", 700);
        readSmall(calls, "mm-1.img", 2_400);
        calls.addAll(List.of(
                "seed 5",
                "open pages-1.img r",
                "open pages-1.img r",
                "pread 0 " + PAGES,
                "pread 8192 70000",
                "pread 33554432 4096",
                "close"));
        return calls;
    }

    private ReplayJob job(List<String> restore) throws IOException {
        return new ReplayJob(directory)
                .retained()
                .announces("inventory.img")
                .completes("inventory.img")
                .rank(dump(), restore);
    }

    private ServicePair pair(ReplayJob job, long stagingBytes) throws IOException, InterruptedException {
        return new ServicePair(
                directory,
                ServicePair.Options.with(job.checkpointer())
                        .staging(stagingBytes)
                        .stall(Duration.ofSeconds(8)));
    }

    @Test
    void shouldMoveARankWhenItsPagesAreSplicedAndReadAtOneGo() throws Exception {
        try (ReplayJob job = job(restore());
                ServicePair pair = pair(job, 128 << 20)) {
            MigrationReport report = job.commits(pair);
            assertTrue(
                    report.images().stagedBytes() >= PAGES - (8 << 20),
                    "staged " + report.images().stagedBytes());
        }
    }

    @Test
    void shouldMoveARankWhenItsRestorePunchesHolesIntoWhatItHasRead() throws Exception {
        List<String> restore = restore();
        restore.addAll(List.of("open pages-1.img rw", "pread 0 1048576", "punch 0 1048576", "zeros 4096 4096"));
        restore.addAll(List.of("pread 1048576 1048576", "punch 1048576 " + (PAGES - (1 << 20)), "fsize " + PAGES));
        restore.addAll(List.of("zeros " + (PAGES - 4096) + " 4096", "fails 30 pwrite 0 4096"));
        try (ReplayJob job = job(restore);
                ServicePair pair = pair(job, 128 << 20)) {
            job.commits(pair);
        }
    }

    @Tag("soak")
    @Test
    void shouldFailByNameWhenTheImageDoesNotFitStaging() throws Exception {
        try (ReplayJob job = job(restore());
                ServicePair pair = pair(job, 16 << 20)) {
            job.rollsBack(pair, "pages-1.img", "does not fit staging", "staging.limit");
        }
    }
}
