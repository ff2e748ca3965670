package io.ppmr.cli;

import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SequenceWriter;
import io.ppmr.cli.help.JsonResult;
import io.ppmr.daemon.history.MigrationHistory;
import io.ppmr.daemon.service.ExitCode;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/** {@code ppmr history}: lists the migrations of a journal. */
@JsonResult(value = MigrationHistory.class, list = true)
@Command(
        name = "history",
        description = {
            "Lists the migrations in a service's journal. The service may run at the same time.",
            "If this node has a source and a target, both are listed."
        },
        mixinStandardHelpOptions = true)
final class HistoryCommand implements Callable<Integer> {
    @Spec
    private CommandSpec spec;

    @Mixin
    private JournalArgument journal;

    @Mixin
    private ConfigArgument config;

    @Option(names = "--json", description = "print the result as JSON")
    private boolean json;

    @Override
    public Integer call() throws Exception {
        PrintWriter out = spec.commandLine().getOut();
        List<Path> files = journal.files(config);
        if (json) {
            ObjectMapper mapper = new ObjectMapper().configure(JsonGenerator.Feature.AUTO_CLOSE_TARGET, false);
            try (SequenceWriter all = mapper.writerWithDefaultPrettyPrinter().writeValuesAsArray(out)) {
                for (Path file : files) {
                    MigrationHistory.each(file, all::write);
                }
            }
            out.println();
            return ExitCode.OK.number();
        }
        for (Path file : files) {
            if (files.size() > 1) {
                out.println("journal " + file);
            }
            list(file, out);
        }
        return ExitCode.OK.number();
    }

    private static void list(Path file, PrintWriter out) throws IOException {
        boolean[] any = {false};
        MigrationHistory.each(file, one -> {
            any[0] = true;
            out.println(one.line());
        });
        if (!any[0]) {
            out.println("no migration yet");
        }
    }
}
