package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.testbed.Patience;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The two services as processes of their own: their memory, their rest, their death, their signals. */
@Timeout(value = 240, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class RealServicesIT {
    private static final Logger LOG = LoggerFactory.getLogger(RealServicesIT.class);
    private static final long MIB = 1 << 20;

    @TempDir
    private Path directory;

    @Tag("soak")
    @Test
    void shouldStaySmallWhenSixGibibytesStreamThrough() throws Exception {
        try (ReplayJob job = new ReplayJob(directory)
                        .rank(
                                List.of("open image wcxn", "write 6g 1m", "close"),
                                List.of("open image r", "read 6g 1m", "close"));
                RealServices services = new RealServices(directory)) {
            Process target = services.startTarget(job);
            Process source = services.startSource(job);
            Path report = directory.resolve("report.json");
            long startNs = System.nanoTime();
            assertEquals(0, services.migrate(report), () -> text(services));
            double seconds = (System.nanoTime() - startNs) / 1e9;
            long sourceBytes = RealServices.peakResidentBytes(source);
            long targetBytes = RealServices.peakResidentBytes(target);
            LOG.info(
                    "6 GiB in {} s; peak resident memory: source {} MiB, target {} MiB",
                    seconds,
                    sourceBytes / MIB,
                    targetBytes / MIB);
            assertTrue(sourceBytes <= 256 * MIB, "source " + sourceBytes / MIB + " MiB");
            assertTrue(targetBytes <= 256 * MIB, "target " + targetBytes / MIB + " MiB");
            assertTrue(Files.readString(report).contains("\"stagedBytes\" : 0"), Files.readString(report));
        }
    }

    @Tag("soak")
    @Test
    void shouldStartAgainWhenKilledWithAMountThatIsInUse() throws Exception {
        try (ReplayJob job = new ReplayJob(directory).rank(List.of("pause 1"), List.of("pause 1"));
                RealServices services = new RealServices(directory)) {
            Process target = services.startTarget(job);
            // A process has the mount as its working directory, so the kernel keeps it busy.
            Process inside = new ProcessBuilder("sleep", "100")
                    .directory(services.mount("target").toFile())
                    .start();
            try {
                target.destroyForcibly();
                assertTrue(target.waitFor(Patience.of(60), TimeUnit.SECONDS), "a killed service must end");
                services.startTarget(job);
                Process list = new ProcessBuilder("ls", services.mount("target").toString()).start();
                assertTrue(list.waitFor(Patience.of(60), TimeUnit.SECONDS));
                assertEquals(0, list.exitValue(), "the new mount answers");
            } finally {
                inside.destroyForcibly();
            }
        }
    }

    @Tag("soak")
    @Test
    void shouldNotMigrateWhenFlightRecorderSamplesForHalfAMinute() throws Exception {
        try (ReplayJob job = new ReplayJob(directory).rank(List.of("pause 1"), List.of("pause 1"));
                RealServices services = new RealServices(directory)) {
            services.startTarget(job);
            Path recording = directory.resolve("source.jfr");
            services.javaOption("-XX:StartFlightRecording=settings=profile,filename=" + recording);
            Process source = services.startSource(job);
            // The flight recorder samples threads with the signal that HotSpot suspends them by.
            assertFalse(source.waitFor(30, TimeUnit.SECONDS), () -> text(services));
            assertFalse(services.log("source").contains("SIGUSR2: "), services.log("source"));
            source.destroy();
            assertTrue(source.waitFor(Patience.of(60), TimeUnit.SECONDS));
            assertTrue(Files.size(recording) > 0, "the flight recorder was on");
        }
    }

    @Test
    void shouldFailOneJobAloneWhenItsPidFileIsAFifo() throws Exception {
        Path fifo = directory.resolve("pid");
        assertEquals(0, new ProcessBuilder("mkfifo", fifo.toString()).start().waitFor());
        Files.setAttribute(fifo, "unix:uid", ReplayJob.USER.uid());
        String stuck = """
                [jobs.stuck]
                user = %d
                group = %d
                checkpointer = "replay"
                ranks = [{rank = 0, pid_file = "%s"}]
                """.formatted(ReplayJob.USER.uid(), ReplayJob.USER.gid(), fifo);
        try (ReplayJob job = new ReplayJob(directory)
                        .rank(
                                List.of("open image wcx", "write 300000", "close"),
                                List.of("open image r", "read 300000"));
                RealServices services = new RealServices(directory).sections(stuck, "")) {
            services.startTarget(job);
            services.startSource(job);
            assertTrue(services.migrate(directory.resolve("none.json"), "stuck") != 0, () -> text(services));
            String said = services.log("migrate");
            assertTrue(said.contains("job stuck, rank 0") && said.contains(fifo + " is no regular file"), said);
            assertTrue(services.command("cancel", "source", List.of("00000000")).contains("no migration is under way"));
            assertEquals(0, services.migrate(directory.resolve("report.json"), "replay"), () -> text(services));
        }
    }

    @Tag("soak")
    @Test
    void shouldUseNextToNoProcessorWhenIdle() throws Exception {
        try (ReplayJob job = new ReplayJob(directory).rank(List.of("pause 1"), List.of("pause 1"));
                RealServices services = new RealServices(directory)) {
            Process target = services.startTarget(job);
            Process source = services.startSource(job);
            rest(3);
            long before = RealServices.cpuTicks(source) + RealServices.cpuTicks(target);
            rest(20);
            long ticks = RealServices.cpuTicks(source) + RealServices.cpuTicks(target) - before;
            LOG.info("an idle pair used {} ms of processor time in 20 s", ticks * 10);
            assertTrue(ticks * 10 <= 200, ticks * 10 + " ms in 20 s is more than half a percent of a core each");
        }
    }

    private static void rest(int seconds) {
        long deadlineNs = System.nanoTime() + TimeUnit.SECONDS.toNanos(seconds);
        while (System.nanoTime() - deadlineNs < 0) {
            LockSupport.parkNanos(deadlineNs - System.nanoTime());
        }
    }

    private static String text(RealServices services) {
        try {
            return services.log("migrate") + services.log("source") + services.log("target");
        } catch (IOException e) {
            return "no logs: " + e;
        }
    }
}
