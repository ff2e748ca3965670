package io.ppmr.cluster;

import io.ppmr.daemon.service.ExitCode;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.util.Optional;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** {@code ppmr controller}: runs a controller of a cluster. See docs/admin/cluster.md. */
@Command(
        name = "controller",
        description = {
            "Runs a controller of a cluster until SIGTERM or SIGINT. It prints \"ready\" when it answers questions.",
            "It knows which nodes live, and chooses spare nodes. SIGUSR1 writes its state to its log."
        },
        mixinStandardHelpOptions = true)
final class ControllerCommand implements Callable<Integer> {
    @Spec
    private CommandSpec spec;

    @Option(
            names = {"-c", "--config"},
            required = true,
            paramLabel = "FILE",
            description = "the controller's configuration, such as /etc/ppmr/controller.toml")
    private Path config;

    @Option(
            names = "--adopt",
            paramLabel = "ID",
            description = "give an empty ensemble the name of a cluster whose controllers lost their disk; its services"
                    + " name it in their logs")
    private String adopted;

    @Option(
            names = "--print-jaas",
            description = "print the users that the servers of a site's ZooKeeper must accept, as a section of their"
                    + " JAAS file, and end. It has secrets")
    private boolean printJaas;

    @Override
    public Integer call() throws Exception {
        if (printJaas) {
            PrintWriter out = spec.commandLine().getOut();
            out.print(ControllerConfig.load(config).ensembleAccess().loginSection());
            out.flush();
            return ExitCode.OK.number();
        }
        if (adopted != null && !adopted.matches("[0-9a-f-]{36}")) {
            throw new ParameterException(
                    spec.commandLine(),
                    "--adopt '" + adopted + "' is no name of a cluster, which has 36 letters and digits");
        }
        new ControllerProcess(ControllerConfig.load(config), Optional.ofNullable(adopted))
                .run(() -> spec.commandLine().getOut().println("ready"));
        return ExitCode.OK.number();
    }
}
