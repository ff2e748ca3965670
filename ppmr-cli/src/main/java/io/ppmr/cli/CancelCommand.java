package io.ppmr.cli;

import io.ppmr.cli.control.ControlClient;
import io.ppmr.cli.service.RefusedException;
import java.util.concurrent.Callable;
import picocli.CommandLine.ArgGroup;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/** {@code ppmr cancel}: calls a migration off. */
@Command(
        name = "cancel",
        description = {
            "Calls a migration off: it is rolled back and the originals go on. Returns when that has begun.",
            "Refused (4) when it is not under way, or when its originals are being ended already."
        },
        mixinStandardHelpOptions = true)
final class CancelCommand implements Callable<Integer> {
    @Spec
    private CommandSpec spec;

    @Parameters(paramLabel = "ID", description = "the migration, by its name in ppmr status or its first characters")
    private String id;

    @ArgGroup(multiplicity = "1")
    private SocketOption socket;

    @Override
    public Integer call() throws Exception {
        try (ControlClient client = new ControlClient(socket.path())) {
            spec.commandLine().getOut().println("migration " + client.cancel(id) + " is being rolled back");
            return ExitCode.OK.number();
        } catch (RefusedException e) {
            throw new CommandFailure(ExitCode.REFUSED, e.getMessage(), e);
        }
    }
}
