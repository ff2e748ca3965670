package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.ppmr.source.MigrationReport.Outcome;
import io.ppmr.target.TargetMetrics;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Spare nodes are asked in their order; one that is dead or refuses is passed over. */
@Timeout(value = 120, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class SparesIT {
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

    private static InetSocketAddress dead() throws Exception {
        try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            return new InetSocketAddress(InetAddress.getLoopbackAddress(), socket.getLocalPort());
        }
    }

    @Test
    void shouldPassOverDeadAndRefusingSparesWhenOneTakesTheJob() throws Exception {
        try (ReplayJob job = job();
                ServicePair refusing = new ServicePair(
                        Files.createDirectory(directory.resolve("refusing")),
                        ServicePair.Options.with(job.checkpointer()).restores(List.of()));
                ServicePair pair = new ServicePair(
                        Files.createDirectory(directory.resolve("taking")),
                        ServicePair.Options.with(job.checkpointer()),
                        List.of(dead(), refusing.target().address()))) {
            job.commits(pair);
            assertEquals(1, refusing.target().metrics().count(TargetMetrics.Meter.REFUSED));
            assertEquals(0, refusing.target().metrics().count(TargetMetrics.Meter.COMMITTED));
        }
    }

    @Test
    void shouldSayOfEachWhyItWasPassedOverWhenNoneTakesTheJob() throws Exception {
        try (ReplayJob job = job();
                ServicePair pair = new ServicePair(
                        Files.createDirectory(directory.resolve("refusing")),
                        ServicePair.Options.with(job.checkpointer()).restores(List.of()),
                        List.of(dead()))) {
            job.fails(
                    pair,
                    Outcome.ROLLED_BACK,
                    "no spare node takes it",
                    "cannot be reached",
                    "refuses: this node is not configured to restore");
        }
    }
}
