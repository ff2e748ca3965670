package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.testbed.Patience;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Both units under a systemd that boots in an emulated machine. src/test/sh/systemd-scenario.sh has the steps there.
 */
@Tag("guest")
@Timeout(value = 1900, unit = TimeUnit.SECONDS, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
@Tag("soak")
class SystemdIT {
    private static final Logger LOG = LoggerFactory.getLogger(SystemdIT.class);
    private static final Path HOME = Path.of(System.getProperty("ppmr.home"));
    private static final int NO_GUEST = 77;
    private static final int GUEST_LIMIT_S = 1800;
    /** An emulated machine is slower by this factor than the machine for the scenario's times. */
    private static final int PATIENCE = 5;

    @TempDir
    private Path directory;

    @Test
    void shouldKeepTheJobGoingWhateverHappensToTheServices() throws Exception {
        Path output = directory.resolve("guest.log");
        Process guest = new ProcessBuilder(
                        HOME.resolve("ppmr").toString(),
                        "guest",
                        "--systemd",
                        "--no-rdma",
                        "--bmc",
                        "--timeout",
                        Long.toString(Patience.of(GUEST_LIMIT_S)),
                        "--",
                        "bash",
                        HOME.resolve("ppmr-system-tests/src/test/sh/systemd-scenario.sh")
                                .toString(),
                        System.getProperty("java.home") + "/bin/java",
                        HOME.toString(),
                        Long.toString(Patience.of(PATIENCE)))
                .redirectErrorStream(true)
                .redirectOutput(output.toFile())
                .start();
        try {
            assertTrue(guest.waitFor(Patience.of(GUEST_LIMIT_S + 60), TimeUnit.SECONDS), "the guest has not ended");
        } finally {
            // QEMU is a child of the launcher, which ends it on SIGTERM.
            guest.destroy();
        }
        String said = Files.readString(output, StandardCharsets.UTF_8);
        Assumptions.assumeTrue(guest.exitValue() != NO_GUEST, () -> "no guest here: " + said.strip());
        List<String> seen =
                said.lines().filter(line -> line.startsWith("seen: ")).toList();
        seen.forEach(LOG::info);
        assertEquals(0, guest.exitValue(), said);
        assertTrue(said.contains("all seen"), said);
    }
}
