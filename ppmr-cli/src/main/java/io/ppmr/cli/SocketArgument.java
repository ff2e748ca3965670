package io.ppmr.cli;

import io.ppmr.daemon.config.ServiceConfig;
import io.ppmr.daemon.config.file.ConfigException;
import java.nio.file.Path;
import picocli.CommandLine.Option;

/** The option that names the service that a command talks to. */
public final class SocketArgument {
    @Option(names = "--socket", paramLabel = "PATH", description = "the service's control_socket")
    private Path socket;

    @Option(names = "--config", paramLabel = "FILE", description = "the service's configuration, which names it")
    private Path config;

    /** The configuration by which it is named, for a command that is shown; else what is to be put there. */
    String configuration() {
        return config == null ? "FILE" : config.toString();
    }

    /** The path of the control socket. */
    public Path path() throws ConfigException {
        return socket != null ? socket : ServiceConfig.socketOf(config);
    }
}
