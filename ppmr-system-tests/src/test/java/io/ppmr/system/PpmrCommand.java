package io.ppmr.system;

import io.ppmr.linux.Command;
import io.ppmr.testbed.Patience;
import io.ppmr.testbed.ServiceProcess;
import java.io.IOException;
import java.time.Duration;
import java.util.List;

/** A command of ppmr that ended. */
record PpmrCommand(int exitCode, String said) {
    private static final Duration LIMIT = Patience.of(Duration.ofSeconds(60));

    /** The words that start one, with the shared flags. */
    static List<String> words(String... arguments) {
        return ServiceProcess.command(arguments);
    }

    /** Runs it to its end. */
    static PpmrCommand run(String... arguments) throws IOException, InterruptedException {
        return run(new ProcessBuilder(words(arguments)));
    }

    /** Runs a command whose words may follow others. */
    static PpmrCommand run(ProcessBuilder builder) throws IOException, InterruptedException {
        Command.CommandResult result = Command.of(builder.command()).run(LIMIT);
        return new PpmrCommand(result.exitCode(), result.output());
    }
}
