package io.ppmr.cli;

import io.ppmr.cli.history.MigrationHistory;
import io.ppmr.cli.report.MigrationPage;
import io.ppmr.daemon.service.CommandFailure;
import io.ppmr.daemon.service.ExitCode;
import io.ppmr.migration.samples.MigrationSamples;
import io.ppmr.migration.samples.SampleStore;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/** {@code ppmr report}: draws one migration of a journal as a page of one HTML file. */
@Command(
        name = "report",
        description = {
            "Draws one migration of a service's journal as one HTML file: its steps and its bytes over time, the"
                    + " decisions and their reasons, and the same figures as tables.",
            "The file needs no network, and opens in every browser. Users who can read the journal can make a report."
        },
        mixinStandardHelpOptions = true)
final class ReportCommand implements Callable<Integer> {
    @Spec
    private CommandSpec spec;

    @Parameters(
            paramLabel = "ID",
            arity = "0..1",
            description = "the migration, as in ppmr history; its first characters suffice (default: the last one)")
    private String id;

    @Option(
            names = {"-o", "--output"},
            required = true,
            paramLabel = "FILE",
            description = "the HTML file to write; a file of this name is replaced")
    private Path output;

    @Mixin
    private JournalArgument journal;

    @Mixin
    private ConfigArgument config;

    @Override
    public Integer call() throws Exception {
        Path file = journal.file(config);
        MigrationHistory found = id == null ? last(file) : MigrationHistory.named(file, id);
        Optional<MigrationSamples> samples = Optional.empty();
        try {
            samples = new SampleStore(file.toAbsolutePath().getParent()).find(found.id());
        } catch (IOException e) {
            OutputOptions.note(spec, "the report has no curves: " + e.getMessage());
        }
        write(new MigrationPage(found, samples, BuildVersion.text()).html());
        OutputOptions.note(spec, "report of migration " + found.id() + ": " + output);
        return ExitCode.OK.number();
    }

    private static MigrationHistory last(Path file) throws IOException, CommandFailure {
        MigrationHistory[] newest = new MigrationHistory[1];
        MigrationHistory.each(file, one -> {
            if (newest[0] == null || one.startedEpochMs() >= newest[0].startedEpochMs()) {
                newest[0] = one;
            }
        });
        if (newest[0] == null) {
            throw new CommandFailure(ExitCode.FAILED, "the journal " + file + " has no migration yet");
        }
        return newest[0];
    }

    /** Writes the file. A link in its place is not followed: the caller may be root, and the folder another user's. */
    private void write(String html) throws CommandFailure {
        try {
            Files.write(
                    output,
                    List.of(html.stripTrailing()),
                    StandardCharsets.UTF_8,
                    StandardOpenOption.CREATE,
                    StandardOpenOption.TRUNCATE_EXISTING,
                    StandardOpenOption.WRITE,
                    LinkOption.NOFOLLOW_LINKS);
        } catch (IOException e) {
            throw new CommandFailure(ExitCode.FAILED, "the report cannot be written to " + output + ": " + e);
        }
    }
}
