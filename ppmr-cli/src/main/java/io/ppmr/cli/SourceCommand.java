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

/** {@code ppmr source}: runs the service of a compute node. */
@Command(
        name = "source",
        description = {
            "Runs the service of a compute node until SIGTERM or SIGINT. It prints \"ready\" when a migration may"
                    + " start.",
            "SIGUSR2 moves trigger_job of the configuration. SIGUSR1 writes the state of the service to its log."
        },
        mixinStandardHelpOptions = true)
final class SourceCommand implements Callable<Integer> {
    @Spec
    private CommandSpec spec;

    @Option(
            names = {"-c", "--config"},
            required = true,
            paramLabel = "FILE",
            description = "the source's configuration, such as /etc/ppmr/source.toml")
    private Path config;

    @Option(
            names = "--no-trigger",
            description = "ignore SIGUSR2 and the health command; only ppmr migrate starts migrations")
    private boolean noTrigger;

    @Override
    public Integer call() throws Exception {
        SourceDaemon.run(SourceConfig.load(config), !noTrigger, () -> spec.commandLine()
                .getOut()
                .println("ready"));
        return ExitCode.OK.number();
    }
}
