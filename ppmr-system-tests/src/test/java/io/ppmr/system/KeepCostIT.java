package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.WorkDirectories;
import io.ppmr.migration.keep.Keeping;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.migration.source.MigrationReport.Outcome;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Tests what keeping a copy costs the migration, on a disk that can keep up. */
@Tag("soak")
@Tag("alone")
@Timeout(value = 300, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class KeepCostIT {
    private static final Logger LOG = LoggerFactory.getLogger(KeepCostIT.class);
    private static final int ROUNDS = 4;
    private static final double MOST = 2;

    @TempDir
    private Path directory;

    @Test
    void shouldTakeLittleLongerWhenACopyIsKept() throws Exception {
        Files.setPosixFilePermissions(directory, PosixFilePermissions.fromString("rwxr-xr-x"));
        Path memory = Files.createTempDirectory(Path.of("/dev/shm"), "kept");
        Files.setPosixFilePermissions(memory, PosixFilePermissions.fromString("rwx--x--x"));
        List<Double> without = new ArrayList<>();
        List<Double> with = new ArrayList<>();
        try {
            for (int round = 0; round < ROUNDS; round++) {
                without.add(seconds(round * 2, Keeping.KeepRequest.NONE));
                with.add(seconds(round * 2 + 1, Keeping.KeepRequest.in(memory)));
            }
        } finally {
            remove(memory);
        }
        without.sort(Double::compare);
        with.sort(Double::compare);
        LOG.info("512 MiB: {} s without a copy, {} s with one", without, with);
        assertTrue(with.get(0) <= without.get(0) * MOST, with + " s with a copy, " + without + " without");
    }

    private double seconds(int round, Keeping.KeepRequest keep) throws Exception {
        Path folder = Files.createDirectory(directory.resolve("round-" + round));
        try (ReplayJob job = new ReplayJob(folder)
                        .rank(
                                List.of("open image wcxn", "write 512m 1m", "close"),
                                List.of("open image r", "skim 512m 1m", "close"));
                ServicePair pair = new ServicePair(folder, ServicePair.Options.with(job.checkpointer()))) {
            MigrationReport report = job.migrate(pair, keep);
            assertEquals(Outcome.COMMITTED, report.outcome(), report.reason());
            if (report.copy() != null) {
                assertTrue(report.copy().kept(), report.copy().reason());
                remove(Path.of(report.copy().directory()));
            }
            return report.times().lastByteWrittenSeconds();
        }
    }

    private static void remove(Path folder) throws Exception {
        WorkDirectories.remove(folder);
    }
}
