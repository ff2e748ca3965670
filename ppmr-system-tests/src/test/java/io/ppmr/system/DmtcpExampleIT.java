package io.ppmr.system;

import static org.junit.jupiter.api.Assertions.assertTrue;

import io.ppmr.linux.Command;
import io.ppmr.testbed.Patience;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Tests the example in docs/examples/dmtcp-hold, as far as this machine has its programs. */
@Timeout(120)
class DmtcpExampleIT {
    private static final Path EXAMPLE = Path.of(System.getProperty("ppmr.home"), "docs/examples/dmtcp-hold");
    private static final Duration LIMIT = Patience.of(Duration.ofSeconds(60));

    @TempDir
    private Path directory;

    private static void run(String... command) throws Exception {
        Command.CommandResult result = Command.of(List.of(command)).run(LIMIT);
        assertTrue(result.succeeded(), result.describe());
    }

    @Test
    void shouldCompileThePluginWhereDmtcpIsInstalled() throws Exception {
        Assumptions.assumeTrue(
                Files.exists(Path.of("/usr/include/dmtcp.h")) || Files.exists(Path.of("/usr/local/include/dmtcp.h")),
                "dmtcp.h is not installed: neither /usr/include nor /usr/local/include has it");
        run(
                "gcc",
                "-Wall",
                "-Wextra",
                "-Werror",
                "-shared",
                "-fPIC",
                "-o",
                directory.resolve("dmtcp-hold.so").toString(),
                EXAMPLE.resolve("dmtcp-hold.c").toString());
    }

    @Test
    void shouldBeScriptsThatTheShellTakes() throws Exception {
        for (String script : List.of("dmtcp-checkpoint", "dmtcp-restart")) {
            run("sh", "-n", EXAMPLE.resolve(script).toString());
        }
    }
}
