package io.ppmr.cli;

import io.ppmr.cli.config.KeyFile;
import java.io.IOException;
import java.nio.file.Path;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/** {@code ppmr keygen}: makes the key by which nodes know each other. */
@Command(
        name = "keygen",
        description = "Makes a key file of mode 0600, to be copied to every node. Never replaces a file.",
        mixinStandardHelpOptions = true)
final class KeygenCommand implements Callable<Integer> {
    @Spec
    private CommandSpec spec;

    @Parameters(paramLabel = "FILE", description = "the file to be made")
    private Path file;

    @Override
    public Integer call() throws IOException {
        KeyFile.create(file);
        spec.commandLine().getOut().println(file + ": made; put the same file on every node, mode 0600");
        return ExitCode.OK.number();
    }
}
