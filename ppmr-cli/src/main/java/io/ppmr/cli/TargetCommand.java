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

/** {@code ppmr target}: runs the service of a spare node. */
@Command(
        name = "target",
        description = {
            "Runs the service of a spare node until SIGTERM or SIGINT. It prints \"ready\" when a migration may come.",
            "SIGUSR1 writes the state of the service to its log."
        },
        mixinStandardHelpOptions = true)
final class TargetCommand implements Callable<Integer> {
    @Spec
    private CommandSpec spec;

    @Option(
            names = {"-c", "--config"},
            required = true,
            paramLabel = "FILE",
            description = "the target's configuration, such as /etc/ppmr/target.toml")
    private Path config;

    @Override
    public Integer call() throws Exception {
        TargetDaemon.run(
                TargetConfig.load(config), () -> spec.commandLine().getOut().println("ready"));
        return ExitCode.OK.number();
    }
}
