package io.ppmr.cli;

import io.ppmr.cli.help.JsonResult;
import io.ppmr.daemon.history.MigrationHistory;
import io.ppmr.daemon.service.ExitCode;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/** {@code ppmr show}: shows one migration of a journal. */
@JsonResult(MigrationHistory.class)
@Command(
        name = "show",
        description = "Shows one migration of a service's journal: who asked, the plan, times and bytes of each step,"
                + " the decision and its reason.",
        mixinStandardHelpOptions = true)
final class ShowCommand implements Callable<Integer> {
    @Spec
    private CommandSpec spec;

    @Parameters(paramLabel = "ID", description = "the migration, as in ppmr history; its first characters suffice")
    private String id;

    @Mixin
    private JournalArgument journal;

    @Mixin
    private ConfigArgument config;

    @Option(names = "--json", description = "print the result as JSON")
    private boolean json;

    @Override
    public Integer call() throws Exception {
        PrintWriter out = spec.commandLine().getOut();
        Path file = journal.file(config);
        MigrationHistory found = MigrationHistory.named(file, id);
        if (json) {
            JsonText.print(out, found);
        } else {
            found.print(out);
        }
        return ExitCode.OK.number();
    }
}
