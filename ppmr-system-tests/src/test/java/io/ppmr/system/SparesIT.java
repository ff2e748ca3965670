package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.migration.source.MigrationReport.Outcome;
import io.ppmr.migration.target.TargetMetrics;
import io.ppmr.protocol.control.NodeFacts;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Spare nodes are queried in their order. A node that is dead or refuses is skipped. */
@Timeout(value = 120, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class SparesIT {
    private static final int JOB_BYTES = 16 << 20;

    @TempDir
    private Path directory;

    private ReplayJob job() throws Exception {
        // The job's user reaches its own folder through this one.
        Files.setPosixFilePermissions(directory, PosixFilePermissions.fromString("rwxr-xr-x"));
        return new ReplayJob(Files.createDirectory(directory.resolve("job")))
                .rank(
                        List.of("open image wcxn", "write 1m 64k", "close"),
                        List.of("open image r", "read 1m 64k", "close"));
    }

    @Test
    void shouldPassOverDeadRefusingAndFullSparesAndSayWhyWhenOneTakesTheJob() throws Exception {
        Files.setPosixFilePermissions(directory, PosixFilePermissions.fromString("rwxr-xr-x"));
        ByteArrayOutputStream log = new ByteArrayOutputStream();
        PrintStream before = System.err;
        try (ReplayJob job = new ReplayJob(Files.createDirectory(directory.resolve("job")))
                        .retained()
                        .rank(
                                JOB_BYTES,
                                List.of("open image wcxn", "write 1m 64k", "close"),
                                List.of("open image r", "read 1m 64k", "close"));
                ServicePair refusing = new ServicePair(
                        Files.createDirectory(directory.resolve("refusing")),
                        ServicePair.Options.with(job.checkpointer()).restores(List.of()));
                ServicePair withoutRoom = new ServicePair(
                        Files.createDirectory(directory.resolve("without-room")),
                        ServicePair.Options.with(job.checkpointer()).staging(8 << 20));
                ServicePair withoutMemory = new ServicePair(
                        Files.createDirectory(directory.resolve("without-memory")),
                        ServicePair.Options.with(job.checkpointer()).staging(64 << 20),
                        SparesIT::withoutMemory);
                ServicePair pair = new ServicePair(
                        Files.createDirectory(directory.resolve("taking")),
                        ServicePair.Options.with(job.checkpointer()).staging(64 << 20),
                        List.of(
                                Nodes.unusedAddress(),
                                refusing.target().address(),
                                withoutRoom.target().address(),
                                withoutMemory.target().address()))) {
            System.setErr(new PrintStream(log, true, StandardCharsets.UTF_8));
            job.commits(pair);
            for (ServicePair passedOver : List.of(refusing, withoutRoom, withoutMemory)) {
                assertEquals(1, passedOver.target().metrics().count(TargetMetrics.Meter.REFUSED));
                assertEquals(0, passedOver.target().metrics().count(TargetMetrics.Meter.COMMITTED));
            }
        } finally {
            System.setErr(before);
        }
        String said = log.toString(StandardCharsets.UTF_8);
        before.print(said);
        for (String reason : List.of(
                "cannot be reached",
                "refuses: this node is not configured to restore",
                "has to wait here as a whole; staging has room for 8 MiB",
                "and as much again for its image, since staging is in memory, 8 MiB are available here")) {
            assertTrue(said.contains(reason), () -> reason + " is not in: " + said);
        }
    }

    private static NodeFacts withoutMemory(NodeFacts here) {
        return new NodeFacts(
                here.hostName(),
                here.architecture(),
                here.kernel(),
                here.libc(),
                here.jdk(),
                here.clockEpochMs(),
                8 << 20,
                here.stagingBytes(),
                here.chunkBytes(),
                here.cpuFeatures(),
                here.rdmaPorts(),
                here.tools());
    }

    @Test
    void shouldSayOfEachWhyItWasPassedOverWhenNoneTakesTheJob() throws Exception {
        try (ReplayJob job = job();
                ServicePair pair = new ServicePair(
                        Files.createDirectory(directory.resolve("refusing")),
                        ServicePair.Options.with(job.checkpointer()).restores(List.of()),
                        List.of(Nodes.unusedAddress()))) {
            job.fails(
                    pair,
                    Outcome.REFUSED,
                    "no spare node accepts the job",
                    "cannot be reached",
                    "refuses: this node is not configured to restore");
        }
    }
}
