package io.ppmr.cli.history;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import io.ppmr.transaction.MappedJournal;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/** {@code ppmr history}: the migrations that a journal knows of. */
@Command(
        name = "history",
        description = "Lists the migrations in a service's journal, also while the service runs.",
        mixinStandardHelpOptions = true)
public final class HistoryCommand implements Callable<Integer> {
    @Spec
    private CommandSpec spec;

    @Option(
            names = "--journal",
            paramLabel = "FILE",
            required = true,
            description = "the source's or a target's journal")
    private Path journal;

    @Option(names = "--json", description = "write JSON")
    private boolean json;

    @Override
    public Integer call() throws Exception {
        List<MigrationHistory> all = MigrationHistory.of(MappedJournal.read(journal));
        PrintWriter out = spec.commandLine().getOut();
        if (json) {
            out.println(new ObjectMapper()
                    .enable(SerializationFeature.INDENT_OUTPUT)
                    .writeValueAsString(all));
        } else if (all.isEmpty()) {
            out.println("no migration yet");
        } else {
            all.forEach(one -> out.println(Wording.line(one).stripTrailing()));
        }
        return 0;
    }
}
