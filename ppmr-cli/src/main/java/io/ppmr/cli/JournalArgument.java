package io.ppmr.cli;

import io.ppmr.daemon.config.ServiceConfig;
import io.ppmr.daemon.config.file.ConfigException;
import io.ppmr.transaction.journal.MappedJournal;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** The options that name the journal a command reads. */
final class JournalArgument {
    @Spec(Spec.Target.MIXEE)
    private CommandSpec command;

    @Option(
            names = "--journal",
            paramLabel = "PATH",
            description = "a service's journal, or its directory (default: that of the configuration)")
    private Path journal;

    boolean isGiven() {
        return journal != null;
    }

    /** Returns the only possible journal. Refuses if this node has a source and a target. */
    Path file(ConfigArgument config) throws ConfigException {
        return journal != null ? fileIn(named(config)) : fileIn(ServiceConfig.journalOf(config.require()));
    }

    /** Returns all selected journals. */
    List<Path> files(ConfigArgument config) throws ConfigException {
        if (journal != null) {
            return List.of(fileIn(named(config)));
        }
        List<Path> configurations = config.all();
        if (configurations.isEmpty()) {
            configurations = List.of(config.require());
        }
        List<Path> files = new ArrayList<>();
        for (Path configuration : configurations) {
            files.add(fileIn(ServiceConfig.journalOf(configuration)));
        }
        return files;
    }

    private Path named(ConfigArgument config) {
        if (config.isGiven()) {
            throw new ParameterException(
                    command.commandLine(), "--journal and --config both name the journal. Remedy: give one of them");
        }
        return journal;
    }

    private static Path fileIn(Path named) {
        return Files.isDirectory(named) ? named.resolve(MappedJournal.FILE_NAME) : named;
    }
}
