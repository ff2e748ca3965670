package io.ppmr.cli;

import io.ppmr.cli.config.TargetConfig;
import io.ppmr.cli.service.LifeSigns;
import io.ppmr.cli.service.ProcessSignals;
import io.ppmr.cli.service.Supervisor;
import io.ppmr.target.TargetService;
import io.ppmr.target.TargetSettings;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.Callable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
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
    private static final Logger LOG = LoggerFactory.getLogger(TargetCommand.class);

    @Spec
    private CommandSpec spec;

    @Option(names = "--config", required = true, paramLabel = "FILE", description = "the target's configuration")
    private Path config;

    @Override
    public Integer call() throws Exception {
        TargetSettings settings = TargetConfig.load(config);
        ServiceRun run = new ServiceRun();
        MountPoint.prepare(settings.mountPoint());
        Files.createDirectories(settings.workDirectory());
        try (LifeSigns signs = new LifeSigns(Supervisor.of(System.getenv()));
                TargetService service = new TargetService(settings)) {
            service.start();
            ProcessSignals.on(
                    "USR1",
                    () -> LOG.info(
                            "state: {}",
                            service.migration()
                                    .map(id -> "migration " + id + " is under way")
                                    .orElse("idle")));
            service.onChange(signs::changed);
            signs.ready(service::complaint, () -> service.migration().map(id -> "migration " + id + " is under way"));
            spec.commandLine().getOut().println("ready");
            run.awaitEnd();
            LOG.info("told to end");
            signs.stopping();
        }
        return ExitCode.OK.number();
    }
}
