package io.ppmr.cli;

import io.ppmr.cli.config.ConfigException;
import io.ppmr.cli.config.SourceConfig;
import java.nio.file.Path;
import picocli.CommandLine.Option;

/** How a command is told which source it talks to. */
final class SocketOption {
    @Option(names = "--socket", paramLabel = "PATH", description = "the source's control_socket")
    private Path socket;

    @Option(names = "--config", paramLabel = "FILE", description = "the source's configuration, which names it")
    private Path config;

    Path path() throws ConfigException {
        return socket != null ? socket : SourceConfig.controlSocketOf(config);
    }
}
