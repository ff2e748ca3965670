package io.ppmr.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.ppmr.linux.Command;
import java.time.Duration;
import java.util.List;

/** The tests' private CRIU, which is installed at the first call. */
final class CriuInstall {
    private static List<String> program;

    private CriuInstall() {}

    static synchronized List<String> program() throws CheckpointException {
        String installed = System.getenv().getOrDefault("PPMR_CRIU", "");
        if (program == null && !installed.isEmpty()) {
            program = installed.lines().toList();
        } else if (program == null) {
            Command.CommandResult result = CommandStarter.call(
                    List.of(System.getProperty("ppmr.criu.install"), System.getProperty("ppmr.criu.dir")),
                    Duration.ofMinutes(5));
            assertEquals(0, result.exitCode(), result.output());
            program = result.output().lines().toList();
        }
        return program;
    }
}
