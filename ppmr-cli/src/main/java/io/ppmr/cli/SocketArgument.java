package io.ppmr.cli;

import io.ppmr.daemon.config.ConfigRoles;
import io.ppmr.daemon.config.ServiceConfig;
import io.ppmr.daemon.config.file.ConfigException;
import io.ppmr.daemon.config.file.ConfigRole;
import io.ppmr.daemon.part.ServicePart.Side;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/**
 * The options that name the service a command talks to. Without them the environment names it, and otherwise the
 * installed files.
 */
public final class SocketArgument {
    static final String SOCKET_VARIABLE = "PPMR_SOCKET";
    static final String CONFIG_VARIABLE = "PPMR_CONFIG";

    private static final List<ConfigRole> SIDES = List.of(role(Side.SOURCE), role(Side.TARGET));

    @Spec(Spec.Target.MIXEE)
    private CommandSpec command;

    @Option(
            names = {"-s", "--socket"},
            paramLabel = "PATH",
            description = "the service's control socket (default: PPMR_SOCKET, or that of the configuration)")
    private Path socket;

    @Option(
            names = {"-c", "--config"},
            paramLabel = "FILE",
            description = "the service's configuration (default: PPMR_CONFIG, or the installed one in /etc/ppmr)")
    private Path config;

    /**
     * A service that receives a query.
     *
     * @param title the title above its answer if several services are queried
     */
    record AskedService(String title, Path socket) {}

    /**
     * Returns the configuration that names the service, for a command that is shown. Otherwise returns a placeholder.
     */
    String configuration() {
        return Optional.ofNullable(config)
                .map(Path::toString)
                .or(() -> Optional.ofNullable(context().variable(CONFIG_VARIABLE)))
                .or(() -> Optional.of(installed().config(Side.SOURCE).toString())
                        .filter(file -> socket == null && installed().isConfigured(Side.SOURCE)))
                .orElse("FILE");
    }

    /** The control socket, for a command that only the service of one side answers. */
    public Path path(Side side) throws ConfigException {
        Optional<Path> named = named(List.of(role(side)));
        if (named.isPresent()) {
            return named.get();
        }
        if (!installed().isPresent(side)) {
            throw NamedService.missing(command, List.of(InstalledServices.word(side)), installed());
        }
        return installed().socket(side);
    }

    /** Returns the control socket, for a command that both sides answer alike. If this node has both, the source's. */
    public Path anyPath() throws ConfigException {
        return anyPath(List.of());
    }

    /**
     * Returns the control socket, for a command that both sides and further services answer alike. If this node has
     * several, takes the source's before the target's, and these before others.
     */
    public Path anyPath(List<ConfigRole> further) throws ConfigException {
        List<ConfigRole> fitting = new ArrayList<>(SIDES);
        fitting.addAll(further);
        Optional<Path> named = named(fitting);
        if (named.isPresent()) {
            return named.get();
        }
        List<Side> sides = installed().present();
        if (!sides.isEmpty()) {
            return installed().socket(sides.get(0));
        }
        for (ConfigRole role : further) {
            if (installed().isPresent(role.word())) {
                return installed().socket(role.word());
            }
        }
        throw NamedService.missing(
                command, fitting.stream().map(ConfigRole::word).toList(), installed());
    }

    /** Returns the control socket, for a command that only the service of a further role answers. */
    public Path path(ConfigRole role) throws ConfigException {
        Optional<Path> named = named(List.of(role));
        if (named.isPresent()) {
            return named.get();
        }
        if (!installed().isPresent(role.word())) {
            throw NamedService.missing(command, List.of(role.word()), installed());
        }
        return installed().socket(role.word());
    }

    /** Returns the control socket, for a command that both sides answer. Refuses if this node has both. */
    public Path path() throws ConfigException {
        Optional<Path> named = named(SIDES);
        if (named.isPresent()) {
            return named.get();
        }
        List<Side> sides = installed().present();
        if (sides.isEmpty()) {
            throw NamedService.missing(command, List.of(), installed());
        }
        if (sides.size() > 1) {
            throw NamedService.ambiguous(command, installed());
        }
        return installed().socket(sides.get(0));
    }

    /** Returns the named service, or all that are installed here. */
    List<AskedService> all() throws ConfigException {
        Optional<Path> named = named(List.of());
        if (named.isPresent()) {
            return List.of(new AskedService("", named.get()));
        }
        List<AskedService> all = new ArrayList<>();
        for (Side side : installed().present()) {
            Path path = installed().socket(side);
            all.add(new AskedService(InstalledServices.word(side) + " (" + path + ")", path));
        }
        if (all.isEmpty()) {
            throw NamedService.missing(command, List.of(), installed());
        }
        return all;
    }

    private static ConfigRole role(Side side) {
        return ConfigRoles.all().stream()
                .filter(role -> role.word().equals(InstalledServices.word(side)))
                .findFirst()
                .orElseThrow();
    }

    /** Returns the named service. Refuses a file of a role that does not fit; none named means that each fits. */
    private Optional<Path> named(List<ConfigRole> fitting) throws ConfigException {
        if (socket != null && config != null) {
            throw new ParameterException(
                    command.commandLine(), "--socket and --config both name the service. Remedy: give one of them");
        }
        if (socket != null) {
            return Optional.of(socket);
        }
        if (config != null) {
            return Optional.of(socketOf(config, fitting, ""));
        }
        String variable = context().variable(SOCKET_VARIABLE);
        if (variable != null) {
            return Optional.of(Path.of(variable));
        }
        String file = context().variable(CONFIG_VARIABLE);
        return file == null
                ? Optional.empty()
                : Optional.of(socketOf(Path.of(file), fitting, " (named by " + CONFIG_VARIABLE + ")"));
    }

    private Path socketOf(Path file, List<ConfigRole> fitting, String origin) throws ConfigException {
        ConfigRole role = ConfigRoles.of(file);
        if (!fitting.isEmpty() && !fitting.contains(role)) {
            String wanted = fitting.get(0).word();
            throw new ParameterException(
                    command.commandLine(),
                    file + origin + " is a " + role.word() + "'s file. Remedy: name the " + wanted
                            + "'s, such as --config " + installed().config(wanted));
        }
        return ServiceConfig.socketOf(file);
    }

    private InstalledServices installed() {
        return new InstalledServices(context());
    }

    private CliContext context() {
        return CliContext.of(command);
    }
}
