package io.ppmr.cli;

import com.fasterxml.jackson.databind.ObjectMapper;
import io.ppmr.cli.report.MigrationPage;
import io.ppmr.daemon.config.file.ConfigException;
import io.ppmr.daemon.control.ControlClient;
import io.ppmr.daemon.history.MigrationHistory;
import io.ppmr.daemon.history.ReportRequest;
import io.ppmr.daemon.history.ReportedMigration;
import io.ppmr.daemon.service.CommandFailure;
import io.ppmr.daemon.service.ExitCode;
import io.ppmr.linux.FileFailure;
import io.ppmr.migration.RequestException;
import io.ppmr.migration.samples.MigrationSamples;
import io.ppmr.migration.samples.SampleStore;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/** {@code ppmr report}: draws one migration of a journal as a page of one HTML file. */
@Command(
        name = "report",
        description = {
            "Draws one migration of a service's journal as one HTML file: its steps and its bytes over time, the"
                    + " decisions and their reasons, and the same figures as tables.",
            "The file needs no network, and opens in every browser.",
            "The service sends users who cannot read the journal the records of their own jobs."
        },
        mixinStandardHelpOptions = true)
final class ReportCommand implements Callable<Integer> {
    private static final int MAX_RECORDS_BYTES = 4 << 20;
    private static final Duration ANSWER_LIMIT = Duration.ofSeconds(60);

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

    @Option(
            names = "--records",
            description = "write the migration's records and curves as JSON in place of a page, for --with")
    private boolean records;

    @Option(
            names = "--with",
            paramLabel = "FILE",
            description = "a file that --records has written at the other end, for one page of both ends")
    private Path with;

    @Option(
            names = {"-s", "--socket"},
            paramLabel = "PATH",
            description = "the control socket of a service that sends the records, in place of its journal (default:"
                    + " PPMR_SOCKET)")
    private Path socket;

    @Mixin
    private JournalArgument journal;

    @Mixin
    private ConfigArgument config;

    @Override
    public Integer call() throws Exception {
        if (records && with != null) {
            throw new ParameterException(
                    spec.commandLine(), "--records writes one end, and --with reads one. Remedy: give one of them");
        }
        Optional<Path> service = service();
        MigrationHistory found;
        Optional<MigrationSamples> samples = Optional.empty();
        if (service.isPresent()) {
            ReportedMigration reported = ask(service.get());
            found = reported.history();
            samples = Optional.ofNullable(reported.samples());
        } else {
            Path file = journal.file(config);
            found = id == null ? last(file) : MigrationHistory.named(file, id);
            try {
                samples = new SampleStore(file.toAbsolutePath().getParent()).find(found.id());
            } catch (IOException e) {
                OutputOptions.note(spec, "the report has no curves: " + e.getMessage());
            }
        }
        if (records) {
            write(new ObjectMapper().writeValueAsString(ReportedMigration.of(found, samples)));
            OutputOptions.note(spec, "records of migration " + found.id() + ": " + output);
            return ExitCode.OK.number();
        }
        Optional<ReportedMigration> other = with == null ? Optional.empty() : Optional.of(otherEnd(found));
        write(new MigrationPage(found, samples, other, BuildVersion.text()).html());
        OutputOptions.note(spec, "report of migration " + found.id() + ": " + output);
        return ExitCode.OK.number();
    }

    /** Returns the service that sends the records, or empty if this user reads the journal. */
    private Optional<Path> service() throws ConfigException {
        if (socket != null) {
            if (journal.isGiven() || config.isGiven()) {
                throw new ParameterException(
                        spec.commandLine(), "--socket names the service. Remedy: leave --journal and --config out");
            }
            return Optional.of(socket);
        }
        if (journal.isGiven()) {
            return Optional.empty();
        }
        if (config.named().isEmpty()) {
            String variable = CliContext.of(spec).variable(SocketArgument.SOCKET_VARIABLE);
            if (variable != null) {
                return Optional.of(Path.of(variable));
            }
        }
        return config.socketWithoutJournal();
    }

    /** Reads the file of the other end, with a limit, since another node has written it. */
    private ReportedMigration otherEnd(MigrationHistory found) throws CommandFailure {
        try (InputStream in = Files.newInputStream(with)) {
            byte[] text = in.readNBytes(MAX_RECORDS_BYTES + 1);
            if (text.length > MAX_RECORDS_BYTES) {
                throw new IOException("it is larger than " + MAX_RECORDS_BYTES + " bytes");
            }
            ReportedMigration other = new ObjectMapper().readValue(text, ReportedMigration.class);
            if (!other.id().equals(found.id())) {
                throw new IOException("it is of migration " + other.id() + ", not of " + found.id());
            }
            if (other.side().equals(found.side())) {
                throw new IOException("it is of the " + found.side() + ", too");
            }
            return other;
        } catch (IOException e) {
            throw new CommandFailure(
                    ExitCode.FAILED,
                    "the records of the other end in " + with + " cannot be used: " + FileFailure.describe(e)
                            + ". Remedy: write them there with ppmr report " + found.id() + " --records -o FILE");
        }
    }

    private ReportedMigration ask(Path service) throws IOException, RequestException {
        try (ControlClient client = new ControlClient(service)) {
            return client.askPart(
                    ReportRequest.NAME,
                    new ReportRequest.Fields(id),
                    ANSWER_LIMIT,
                    ReportRequest.ANSWER,
                    ReportedMigration.class);
        }
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
