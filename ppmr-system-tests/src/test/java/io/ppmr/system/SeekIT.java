package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.migration.target.TargetMetrics;
import io.ppmr.testbed.Conditions;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** A stream is read once: what lies behind its reader is refused, except for the head. */
@Timeout(value = 60, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class SeekIT {
    private static final int ESPIPE = 29;

    @TempDir
    private Path directory;

    @Test
    void shouldRefuseAndSayWhyWhenAStreamIsReadAgain() throws Exception {
        PrintStream ordinary = System.err;
        ByteArrayOutputStream log = new ByteArrayOutputStream();
        try (ReplayJob job = new ReplayJob(directory)
                        .rank(
                                List.of("open image wcx", "write 20m 1m", "close"),
                                List.of(
                                        "open image r",
                                        "read 1m",
                                        "seek 8192",
                                        "fails " + ESPIPE + " read 4096",
                                        "fails " + ESPIPE + " pread 500000 10",
                                        "pread 0 4096",
                                        "pread 4000 96",
                                        "fails " + ESPIPE + " pread 4000 97",
                                        "seek 1048576",
                                        "read 4m",
                                        "seek 10485760",
                                        "read 1m",
                                        "fails " + ESPIPE + " pread 6291456 4096",
                                        "seek 11534336",
                                        "read 9437184",
                                        "eof"));
                ServicePair pair = new ServicePair(
                        directory,
                        ServicePair.Options.with(job.checkpointer())
                                .staging(64 << 20)
                                .stall(Duration.ofSeconds(6)))) {
            System.setErr(new PrintStream(log, true, StandardCharsets.UTF_8));
            try {
                job.commits(pair);
            } finally {
                System.setErr(ordinary);
            }
            Conditions.get(() -> pair.target().metrics().count(TargetMetrics.Meter.COMMITTED) == 1 ? true : null);
            assertEquals(4, pair.target().metrics().count(TargetMetrics.Meter.REFUSED_SEEKS));
        }
        String said = log.toString(StandardCharsets.UTF_8);
        assertTrue(said.contains("reads offset 8192 again"), said);
        assertTrue(said.contains("configure the checkpointer as retained"), said);
    }
}
