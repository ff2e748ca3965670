package io.ppmr.cli;

import io.ppmr.daemon.SourceDaemon;
import io.ppmr.daemon.config.SourceConfig;
import io.ppmr.daemon.service.ExitCode;
import java.nio.file.Path;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/** {@code ppmr source}: the service of a compute node, until SIGTERM. */
@Command(
        name = "source",
        description = {
            "Runs the service of a compute node until SIGTERM or SIGINT. Prints \"ready\" when a migration may start.",
            "SIGUSR2 moves the configuration's trigger_job; SIGUSR1 writes its state to the log."
        },
        mixinStandardHelpOptions = true)
final class SourceCommand implements Callable<Integer> {
    @Spec
    private CommandSpec spec;

    @Option(names = "--config", required = true, paramLabel = "FILE", description = "the source's configuration")
    private Path config;

    @Option(
            names = "--no-trigger",
            description = "leave SIGUSR2 and the health command alone; ppmr migrate alone starts migrations")
    private boolean noTrigger;

    @Override
    public Integer call() throws Exception {
        SourceDaemon.run(SourceConfig.load(config), !noTrigger, () -> spec.commandLine()
                .getOut()
                .println("ready"));
        return ExitCode.OK.number();
    }
}
