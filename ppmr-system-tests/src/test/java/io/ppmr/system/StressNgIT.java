package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.linux.Command;
import io.ppmr.linux.ProcStat;
import io.ppmr.migration.source.MigrationReport;
import io.ppmr.migration.source.MigrationReport.Outcome;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Patience;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Workers of stress-ng, which verify what they do, as jobs under real CRIU. Each is moved and ends verified. Or it is
 * refused with a message that names the cause before it is stopped, and ends verified here. CRIU itself may refuse some
 * of the long list while they are stopped. They continue here and end verified, too. No worker is moved and then fails.
 */
@Timeout(value = 90, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
@Tag("soak")
class StressNgIT {
    private static final Logger LOG = LoggerFactory.getLogger(StressNgIT.class);
    private static final Duration LIMIT = Patience.of(Duration.ofSeconds(60));
    /** This is longer than any move. Such a worker is ended after it has worked on. */
    private static final long SECONDS = LIMIT.multipliedBy(10).toSeconds();

    private static final long WORKING_NS = TimeUnit.MILLISECONDS.toNanos(50);
    /** Some have thousands of processes or files, which cost CRIU much time. */
    private static final long LONG_SECONDS = Patience.of(Duration.ofSeconds(15)).toSeconds();

    @TempDir
    private Path directory;

    @BeforeEach
    void requireStressNg() throws Exception {
        boolean found;
        try {
            found = Command.of(List.of("stress-ng", "--version")).run(LIMIT).succeeded();
        } catch (IOException e) {
            found = false;
        }
        Assumptions.assumeTrue(found, "stress-ng is missing (package stress-ng)");
    }

    @ParameterizedTest(name = "{0}")
    @ValueSource(strings = {"vm", "fork", "pipe", "futex", "sock"})
    void shouldMoveOrRefuseAWorker(String worker) throws Exception {
        MigrationReport report = moveOrRefuse(worker, SECONDS, WORKING_NS);
        if (report.outcome() != Outcome.COMMITTED) {
            assertTrue(report.reason().startsWith("rank 0 was not stopped: PID "), report.reason());
        }
    }

    @ParameterizedTest(name = "{0}")
    @ValueSource(
            strings = {
                "memcpy",
                "mmap",
                "mremap",
                "malloc",
                "brk",
                "stack",
                "shm",
                "memfd",
                "vm-splice",
                "fault",
                "cpu",
                "matrix",
                "qsort",
                "pthread",
                "sem",
                "sem-sysv",
                "shm-sysv",
                "msg",
                "mq",
                "flock",
                "lockf",
                "lockofd",
                "fcntl",
                "lease",
                "daemon",
                "session",
                "zombie",
                "vfork",
                "clone",
                "wait",
                "kill",
                "signal",
                "sigq",
                "sigpipe",
                "timer",
                "timerfd",
                "itimer",
                "alarm",
                "eventfd",
                "epoll",
                "poll",
                "udp",
                "sockpair",
                "sockfd",
                "fifo",
                "splice",
                "tee",
                "sendfile",
                "dir",
                "dentry",
                "link",
                "rename",
                "seek",
                "hdd",
                "aio",
                "inotify",
                "pty",
                "nice",
                "affinity",
                "yield",
                "switch",
                "tmpfs"
            })
    void shouldMoveOrRefuseAWorkerOfManyKinds(String worker) throws Exception {
        moveOrRefuse(worker, LONG_SECONDS, 0);
    }

    /** Adds up how long the workers have run: their pipes and sockets are not there before. */
    private static long workedNs(String worker, CriuJob job) {
        long ns = 0;
        for (long pid : job.pids()) {
            ns += ProcStat.read("/proc/" + pid + "/stat")
                    .filter(stat -> stat.name().equals("stress-ng-" + worker))
                    .map(ProcStat::processorNs)
                    .orElse(0L);
        }
        return ns;
    }

    /**
     * Moves a worker.
     *
     * @param workingNs the time that the job works on a processor before its move and before its end, or 0 if it ends
     *     without a request
     */
    private MigrationReport moveOrRefuse(String worker, long seconds, long workingNs) throws Exception {
        Checkpointer criu = CriuJob.criu();
        String line = "setsid stress-ng --" + worker + " 1 --verify --timeout " + seconds + "s --vm-bytes 16m"
                + " --temp-path . --log-file log";
        try (ServicePair pair = new ServicePair(
                        directory,
                        ServicePair.Options.with(criu).alsoRootsJobs().staging(256 << 20));
                CriuJob job = CriuJob.start(directory, line)) {
            Path log = job.file("log");
            Conditions.until(
                    LIMIT,
                    worker + " works",
                    () -> Files.exists(log)
                            && Files.readString(log).contains("dispatching hogs")
                            && workedNs(worker, job) >= workingNs);
            MigrationReport report = job.migrate(pair, criu);
            LOG.info("stress-ng --{}: {} {}", worker, report.outcome(), report.reason());
            // A worker that opens every terminal of the node leaves none for CRIU's check of the target, on the same
            // node.
            boolean noTerminalLeft = report.outcome() == Outcome.REFUSED
                    && worker.equals("pty")
                    && report.reason().contains("Can't open /dev/ptmx");
            assertTrue(
                    report.outcome() == Outcome.COMMITTED || report.outcome() == Outcome.ROLLED_BACK || noTerminalLeft,
                    report.reason());
            if (workingNs > 0) {
                long before = workedNs(worker, job);
                Conditions.until(LIMIT, worker + " works on", () -> workedNs(worker, job) >= before + workingNs);
                int root = report.outcome() == Outcome.COMMITTED
                        ? report.ranks().get(0).pids().get(0)
                        : job.pid();
                Command.of(List.of("kill", "-INT", Integer.toString(root))).run(LIMIT);
            }
            Conditions.until(
                    LIMIT, worker + " has ended", () -> Files.readString(log).contains("run completed"));
            String said = Files.readString(log);
            assertTrue(said.contains(" successful run completed"), said);
            assertFalse(said.contains("fail:"), said);
            return report;
        }
    }
}
