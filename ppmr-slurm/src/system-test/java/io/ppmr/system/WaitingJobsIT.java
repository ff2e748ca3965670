package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.checkpoint.NativePrograms;
import io.ppmr.testbed.Conditions;
import io.ppmr.testbed.Patience;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** A large job over a slow link, for which jobs of five other users wait: that they wait shortens none of its times. */
@Tag("soak")
@Timeout(value = 25, unit = TimeUnit.MINUTES, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class WaitingJobsIT {
    private static final Logger LOG = LoggerFactory.getLogger(WaitingJobsIT.class);
    private static final Duration LIMIT = Patience.of(Duration.ofMinutes(20));
    /** Users are taken in the order of their numbers. */
    private static final int LARGE_USER = 20_001;

    private static final int WAITING = 5;
    private static final long LARGE_BYTES = 20L << 30;
    private static final long LINK_BYTES_A_SECOND = 160L << 20;

    @TempDir
    private Path directory;

    private final List<Process> ranks = new ArrayList<>();
    private RealServices services;
    private DelayedLink slow;
    private ReplayJob large;
    private ReplayJob small;
    private Process source;

    @BeforeEach
    void start() throws Exception {
        Files.setPosixFilePermissions(directory, PosixFilePermissions.fromString("rwxr-xr-x"));
        services = new RealServices(directory);
        large = job("large", LARGE_BYTES);
        small = job("small", 1L << 20);
        services.sections("", large.toml().replace(".replay]", ".large]"));
        services.startTarget(small);
        slow = new DelayedLink(Duration.ZERO, LINK_BYTES_A_SECOND);
        slow.leadTo(new InetSocketAddress(InetAddress.getLoopbackAddress(), services.port()));
        source = services.startSource(
                "[announcements]\ndirectory = \"" + directory.resolve("announced") + "\"",
                "[target]\naddress = \"127.0.0.1:" + slow.address().getPort() + "\"",
                small.toml(),
                large.toml().replace(".replay]", ".large]"));
    }

    private ReplayJob job(String name, long bytes) throws IOException {
        Path own = Files.createDirectory(directory.resolve(name));
        Files.setPosixFilePermissions(own, PosixFilePermissions.fromString("rwxr-xr-x"));
        ReplayJob job = new ReplayJob(own);
        job.script("checkpoint-0", List.of("open image wcxn", "write " + bytes + " 256k", "close", "stop"));
        job.script("restart-0", List.of("open image r", "read " + bytes + " 256k", "close", "spawn"));
        Files.setPosixFilePermissions(own.resolve("job"), PosixFilePermissions.fromString("rwxr-xr-x"));
        return job;
    }

    @AfterEach
    void end() throws Exception {
        for (Process rank : ranks) {
            rank.descendants().forEach(ProcessHandle::destroyForcibly);
            rank.destroyForcibly().waitFor();
        }
        services.close();
        slow.close();
        large.close();
        small.close();
    }

    /** Starts a rank as srun does. */
    private void announce(int uid, String checkpointer) throws Exception {
        Path said = directory.resolve("said-" + uid);
        ProcessBuilder builder = new ProcessBuilder(
                        "setpriv",
                        "--reuid",
                        "" + uid,
                        "--regid",
                        "" + uid,
                        "--clear-groups",
                        NativePrograms.fromSystemProperty()
                                .of("ppmr-slurm-task")
                                .toString(),
                        "run",
                        "--announce",
                        directory.resolve("announced").toString(),
                        "--socket",
                        services.socket("source").toString(),
                        "--checkpointer",
                        checkpointer,
                        "--",
                        "sleep",
                        "3000")
                .directory(Path.of("/").toFile())
                .redirectErrorStream(true)
                .redirectOutput(said.toFile());
        builder.environment()
                .putAll(Map.of(
                        "SLURM_JOB_ID", "7", "SLURM_STEP_ID", "0", "SLURM_PROCID", "0", "SLURMD_NODENAME", "n1"));
        ranks.add(builder.start());
        Conditions.until("the rank is started", () -> Files.readString(said, StandardCharsets.UTF_8)
                .contains("ppmr-rank 0 started"));
    }

    /** Reads the outcome of a user's job. Empty while there is none. */
    private String outcome(int uid) throws IOException {
        Path record = directory.resolve("announced/moves/" + uid + "/slurm-7.0");
        return Files.exists(record) ? Files.readString(record).split(" ", 2)[0].strip() : "";
    }

    @Test
    void shouldMoveALargeJobOverASlowLinkWhileFiveOthersWaitAndThenThose() throws Exception {
        announce(LARGE_USER, "large");
        for (int i = 1; i <= WAITING; i++) {
            announce(LARGE_USER + i, "replay");
        }
        long startNs = System.nanoTime();
        assertEquals(
                0,
                new ProcessBuilder("kill", "-USR2", "" + source.pid()).start().waitFor());
        int last = LARGE_USER + WAITING;
        Conditions.until(LIMIT, "the large job has come to its end", () -> !List.of("", "underway")
                .contains(outcome(LARGE_USER)));
        double seconds = (System.nanoTime() - startNs) / 1e9;
        assertEquals("committed", outcome(LARGE_USER), () -> log());
        assertEquals("", outcome(last), "the others wait");
        Conditions.until("the others have come to their ends", () -> !List.of("", "underway")
                .contains(outcome(last)));
        LOG.info(
                "20 GiB: {} s, and with {} jobs after them {} s",
                seconds,
                WAITING,
                (System.nanoTime() - startNs) / 1e9);
        for (int uid = LARGE_USER; uid <= last; uid++) {
            assertEquals("committed", outcome(uid), () -> log());
        }
        assertTrue(slow.hasCarried(LARGE_BYTES), "it went over the slow link");
    }

    private String log() {
        try {
            return services.log("source");
        } catch (IOException e) {
            return e.toString();
        }
    }
}
