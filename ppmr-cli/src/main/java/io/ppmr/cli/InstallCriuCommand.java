package io.ppmr.cli;

import io.ppmr.checkpoint.CriuInstaller;
import io.ppmr.daemon.service.CommandFailure;
import io.ppmr.daemon.service.ExitCode;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import picocli.CommandLine.ArgGroup;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/** {@code ppmr install-criu}: Debian's packages of CRIU 4, unpacked into a directory of their own. */
@Command(
        name = "install-criu",
        description = {
            "Unpacks a CRIU 4 of Debian into a directory, and prints the words for the key program, one a line.",
            "Nothing of the system is changed. A package that was not tested is refused.",
            "A node without a mirror takes the packages with --from."
        },
        mixinStandardHelpOptions = true)
final class InstallCriuCommand implements Callable<Integer> {
    @Spec
    private CommandSpec spec;

    @Parameters(
            paramLabel = "DIR",
            arity = "0..1",
            defaultValue = "/var/lib/ppmr/criu",
            description = "the directory to install to (default: ${DEFAULT-VALUE})")
    private Path directory;

    @ArgGroup
    private Origin origin;

    /** The origin of the packages, if that is not the mirror of this machine. */
    private static final class Origin {
        @Option(
                names = "--from",
                paramLabel = "FILE",
                arity = "1",
                description = "take this package, or the directory that --download-only has filled; may be repeated")
        private List<Path> files;

        @Option(
                names = "--download-only",
                paramLabel = "DIR",
                description = "download the packages to a directory, for --from on other nodes; install nothing")
        private Path download;
    }

    @Override
    public Integer call() throws IOException, InterruptedException, CommandFailure {
        Path home = Path.of(System.getenv().getOrDefault("PPMR_HOME", "."));
        Path script = CriuInstaller.script(home)
                .orElseThrow(() -> new CommandFailure(
                        ExitCode.FAILED,
                        "the script that installs CRIU is missing in " + home + ". Remedy: install ppmr again"));
        List<String> words = new ArrayList<>(List.of(script.toString()));
        if (origin != null && origin.download != null) {
            words.addAll(List.of(origin.download.toString(), "--download-only"));
        } else {
            words.add(directory.toString());
        }
        if (origin != null && origin.files != null) {
            words.add("--from");
            origin.files.forEach(file -> words.add(file.toString()));
        }
        // The script has deadlines of its own for what it waits for; a download can take long.
        spec.commandLine().getOut().flush();
        return new ProcessBuilder(words).inheritIO().start().waitFor() == 0
                ? ExitCode.OK.number()
                : ExitCode.FAILED.number();
    }
}
