package io.ppmr.cli;

import io.ppmr.cli.help.JsonResult;
import io.ppmr.daemon.control.ControlClient;
import io.ppmr.daemon.part.ServicePart.Side;
import io.ppmr.daemon.service.ExitCode;
import io.ppmr.migration.source.MigrationQueue;
import java.io.PrintWriter;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/** {@code ppmr cancel}: calls a migration off. */
@JsonResult(CancelCommand.CancelledMigration.class)
@Command(
        name = "cancel",
        description = {
            "Rolls a migration back; the originals continue. The command returns when that has begun.",
            "It is refused if the migration is not under way, or if its originals are being ended already."
        },
        mixinStandardHelpOptions = true)
final class CancelCommand implements Callable<Integer> {
    @Spec
    private CommandSpec spec;

    @Parameters(
            paramLabel = "ID",
            description = "the migration, as in ppmr status; its first characters suffice. Or " + MigrationQueue.WAITING
                    + ": the jobs that a trigger has yet to move stay here")
    private String id;

    @Mixin
    private SocketArgument socket;

    @Option(names = "--json", description = "print the result as JSON")
    private boolean json;

    /** The result as it is printed. */
    record CancelledMigration(String cancelling) {}

    @Override
    public Integer call() throws Exception {
        PrintWriter out = spec.commandLine().getOut();
        try (ControlClient client = new ControlClient(socket.path(Side.SOURCE))) {
            String cancelled = client.cancel(id);
            if (json) {
                JsonText.print(out, new CancelledMigration(cancelled));
            } else {
                out.println(
                        id.equals(MigrationQueue.WAITING)
                                ? "not moved by this trigger: " + cancelled
                                : "migration " + cancelled + " is being rolled back");
            }
        }
        return ExitCode.OK.number();
    }
}
