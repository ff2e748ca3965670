package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.ObjectMapper;
import io.ppmr.linux.Command;
import io.ppmr.testbed.Patience;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** A target whose configuration names no folder for staging. It has memory of its own, which no user can fill. */
@Timeout(value = 120, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class OwnStagingIT {
    private static final Duration LIMIT = Patience.of(Duration.ofSeconds(20));
    private static final long MIB = 1 << 20;
    private static final List<String> CHECKPOINT = List.of("open image wcx", "write 32m 1m", "close");
    private static final List<String> RESTART = List.of("open image r", "read 32m 1m", "eof");

    @TempDir
    private Path directory;

    private Path staging() throws IOException {
        return directory.toRealPath().resolve("target-work/.staging");
    }

    private Optional<String> mounted() throws IOException {
        String place = " " + staging() + " ";
        return Files.readAllLines(Path.of("/proc/self/mountinfo")).stream()
                .filter(line -> line.contains(place))
                .findFirst();
    }

    @AfterEach
    void detach() throws Exception {
        while (mounted().isPresent()) {
            Command.of(List.of("umount", "-l", staging().toString())).run(LIMIT).requireOutput();
        }
    }

    @Tag("soak")
    @Test
    void shouldStageInMemoryThatNoUserCanEnterWhenNoFolderIsNamed() throws Exception {
        try (ReplayJob job = new ReplayJob(directory).retained().rank(CHECKPOINT, RESTART);
                RealServices services = new RealServices(directory)) {
            Process target = services.startTarget(job);
            services.startSource(job);
            String mount = mounted().orElseThrow();
            assertTrue(mount.contains("nosuid,nodev,noexec") && mount.contains("ppmr-staging@"), mount);
            // 64 MiB for each of two migrations.
            assertEquals(128 * MIB, Files.getFileStore(staging()).getTotalSpace());
            Command.CommandResult fill = Command.of(List.of(
                            "setpriv",
                            "--reuid=" + ReplayJob.USER.uid(),
                            "--regid=" + ReplayJob.USER.gid(),
                            "--clear-groups",
                            "dd",
                            "if=/dev/zero",
                            "of=" + staging() + "/fill",
                            "bs=1M"))
                    .in(Path.of("/"))
                    .run(LIMIT);
            assertTrue(fill.output().contains("ermission denied"), fill.describe());
            Path report = directory.resolve("report.json");
            int exit = services.migrate(report);
            assertEquals(0, exit, services.log("target"));
            long staged = new ObjectMapper()
                    .readTree(report.toFile())
                    .findValue("stagedBytes")
                    .asLong();
            assertTrue(staged >= 24 * MIB, () -> "staged " + staged);
            assertEquals(128 * MIB, Files.getFileStore(staging()).getUsableSpace(), "all of it is given back");
            target.destroy();
            assertTrue(target.waitFor(LIMIT.toSeconds(), TimeUnit.SECONDS));
            assertEquals(Optional.empty(), mounted());
        }
    }

    @Tag("soak")
    @Test
    void shouldBeClearedByUnmountAndByTheNextStartWhenTheServiceWasKilled() throws Exception {
        try (ReplayJob job = new ReplayJob(directory).rank(List.of("pause 1"), List.of("pause 1"));
                RealServices services = new RealServices(directory)) {
            Process target = services.startTarget(job);
            String refused = services.command("unmount", "target", List.of());
            assertTrue(refused.contains("is busy"), refused);
            assertTrue(mounted().isPresent(), "that of a service that runs stays");
            target.destroyForcibly();
            assertTrue(target.waitFor(LIMIT.toSeconds(), TimeUnit.SECONDS));
            assertTrue(mounted().isPresent());
            String cleared = services.command("unmount", "target", List.of());
            assertTrue(cleared.startsWith("0\n") && cleared.contains("the staging of a dead service"), cleared);
            assertEquals(Optional.empty(), mounted());
            Process next = services.startTarget(job);
            String before = mounted().orElseThrow();
            next.destroyForcibly();
            assertTrue(next.waitFor(LIMIT.toSeconds(), TimeUnit.SECONDS));
            services.startTarget(job);
            assertFalse(mounted().orElseThrow().equals(before), "it is the new service's");
        }
    }
}
