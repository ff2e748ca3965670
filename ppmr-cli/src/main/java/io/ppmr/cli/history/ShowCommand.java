package io.ppmr.cli.history;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import io.ppmr.transaction.MappedJournal;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/** {@code ppmr show ID}: everything that a journal knows of one migration. */
@Command(
        name = "show",
        description = "Shows one migration of a service's journal: who asked, the plan, the steps' times and bytes, the"
                + " decision and its reason.",
        mixinStandardHelpOptions = true)
public final class ShowCommand implements Callable<Integer> {
    @Spec
    private CommandSpec spec;

    @Parameters(paramLabel = "ID", description = "the migration, as in `ppmr history`")
    private String id;

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
        MigrationHistory found = MigrationHistory.of(MappedJournal.read(journal)).stream()
                .filter(one -> one.id().equals(id))
                .findFirst()
                .orElseThrow(() -> new IOException(
                        "the journal " + journal + " knows no migration " + id + "; `ppmr history` lists them"));
        PrintWriter out = spec.commandLine().getOut();
        if (json) {
            out.println(new ObjectMapper()
                    .enable(SerializationFeature.INDENT_OUTPUT)
                    .writeValueAsString(found));
        } else {
            Wording.whole(found, out);
        }
        out.flush();
        return 0;
    }
}
