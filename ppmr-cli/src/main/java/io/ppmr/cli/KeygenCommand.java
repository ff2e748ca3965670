package io.ppmr.cli;

import io.ppmr.daemon.config.KeyFile;
import io.ppmr.daemon.service.ExitCode;
import java.io.IOException;
import java.nio.file.Path;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/** {@code ppmr keygen}: makes the key file of a cluster. */
@Command(
        name = "keygen",
        description = {
            "Makes a key file with mode 0600. It never replaces a file.",
            "Copy the nodes' key to every node, and a controller key to the controllers only."
        },
        mixinStandardHelpOptions = true)
final class KeygenCommand implements Callable<Integer> {
    @Spec
    private CommandSpec spec;

    @Parameters(paramLabel = "FILE", description = "the file to make")
    private Path file;

    @Override
    public Integer call() throws IOException {
        KeyFile.create(file);
        String text = ": made, mode 0600. Copy it to each node that needs it: the key of the nodes to every node,"
                + " a controller key to the controllers only";
        spec.commandLine().getOut().println(file + text);
        return ExitCode.OK.number();
    }
}
