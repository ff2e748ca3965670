package io.ppmr.cli;

import io.ppmr.cli.control.ControlClient;
import io.ppmr.cli.control.ControlStatus;
import java.util.concurrent.Callable;
import picocli.CommandLine.ArgGroup;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Spec;

/** {@code ppmr status}: what a source's service is doing. */
@Command(
        name = "status",
        description = "Says whether a source's service is idle, or how far its migration is.",
        mixinStandardHelpOptions = true)
final class StatusCommand implements Callable<Integer> {
    @Spec
    private CommandSpec spec;

    @ArgGroup(multiplicity = "1")
    private SocketOption socket;

    @Override
    public Integer call() throws Exception {
        try (ControlClient client = new ControlClient(socket.path())) {
            ControlStatus status = client.status();
            ProgressView view = new ProgressView(spec.commandLine().getOut(), false);
            if (!status.busy()) {
                view.line("idle");
            } else if (status.progress() == null) {
                view.line("busy: job " + status.job() + ", starting");
            } else {
                view.line("busy: job " + status.job() + ", " + ProgressView.text(status.progress()));
            }
            if (status.transport() != null) {
                view.line("transport " + status.transport());
            }
        }
        return ExitCode.OK.number();
    }
}
