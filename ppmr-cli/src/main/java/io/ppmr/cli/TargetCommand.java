package io.ppmr.cli;

import io.ppmr.daemon.TargetDaemon;
import io.ppmr.daemon.config.TargetConfig;
import io.ppmr.daemon.service.ExitCode;
import java.nio.file.Path;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/** {@code ppmr target}: the service of a spare node, until SIGTERM. */
@Command(
        name = "target",
        description = {
            "Runs the service of a spare node until SIGTERM or SIGINT. Prints \"ready\" when a migration may come.",
            "SIGUSR1 writes its state to the log."
        },
        mixinStandardHelpOptions = true)
final class TargetCommand implements Callable<Integer> {
    @Spec
    private CommandSpec spec;

    @Option(names = "--config", required = true, paramLabel = "FILE", description = "the target's configuration")
    private Path config;

    @Override
    public Integer call() throws Exception {
        TargetDaemon.run(
                TargetConfig.load(config), () -> spec.commandLine().getOut().println("ready"));
        return ExitCode.OK.number();
    }
}
