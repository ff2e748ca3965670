package io.ppmr.cli;

import io.ppmr.daemon.config.ServiceConfig;
import io.ppmr.daemon.config.file.ConfigException;
import io.ppmr.daemon.part.ServicePart.Side;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/**
 * The option that names the configuration a command reads. Without it the environment names one, and otherwise the
 * installed one is read.
 */
final class ConfigArgument {
    @Spec(Spec.Target.MIXEE)
    private CommandSpec command;

    @Option(
            names = {"-c", "--config"},
            paramLabel = "FILE",
            description = "the service's configuration (default: PPMR_CONFIG, or the installed one in /etc/ppmr)")
    private Path config;

    boolean isGiven() {
        return config != null;
    }

    /** The one that an option or the environment names. */
    Optional<Path> named() {
        return Optional.ofNullable(config)
                .or(() -> Optional.ofNullable(CliContext.of(command).variable(SocketArgument.CONFIG_VARIABLE))
                        .map(Path::of));
    }

    /** Returns the named configuration, or those of the services in use. */
    List<Path> all() {
        return named().map(List::of).orElseGet(() -> installed().inUse().stream()
                .filter(installed()::isConfigured)
                .map(installed()::config)
                .toList());
    }

    /** Returns the only possible configuration, or empty if there is none. Refuses if this node has both. */
    Optional<Path> only() {
        if (named().isPresent()) {
            return named();
        }
        List<Side> sides =
                installed().present().stream().filter(installed()::isConfigured).toList();
        if (sides.size() > 1) {
            throw NamedService.ambiguous(command, installed());
        }
        return sides.stream().map(installed()::config).findFirst();
    }

    /** Returns the only possible configuration. Refuses if there is none, or if this node has both. */
    Path require() {
        return only().orElseThrow(() -> NamedService.missing(command, List.of(), installed()));
    }

    /**
     * Returns the control socket of the only possible service if this user cannot read its journal, otherwise empty.
     * The users of a node often cannot read the configuration either. Then it is the source
     * at its usual place, since their jobs are there.
     */
    Optional<Path> socketWithoutJournal() throws ConfigException {
        if (named().isEmpty()) {
            List<Side> sides = installed().present();
            Side side = sides.contains(Side.SOURCE) ? Side.SOURCE : Side.TARGET;
            if (!sides.isEmpty() && !Files.isReadable(installed().config(side))) {
                return Optional.of(installed().usualSocket(side));
            }
        }
        Path file = require();
        Path journal = ServiceConfig.journalOf(file);
        // The journal's folder has the mode 0700, so other users cannot look into it.
        return Files.isExecutable(journal) || Files.notExists(journal)
                ? Optional.empty()
                : Optional.of(ServiceConfig.socketOf(file));
    }

    private InstalledServices installed() {
        return new InstalledServices(CliContext.of(command));
    }
}
