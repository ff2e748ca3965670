package io.ppmr.cli.install;

import io.ppmr.daemon.service.CommandFailure;
import io.ppmr.daemon.service.ExitCode;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/** {@code ppmr uninstall}: takes away what {@code ppmr install} has put in place, and nothing else. */
@Command(
        name = "uninstall",
        description = {
            "Takes away what ppmr install has put in place. What was changed since is kept, and named.",
            "Jobs that were moved here continue."
        },
        mixinStandardHelpOptions = true)
public final class UninstallCommand implements Callable<Integer> {
    @Spec
    private CommandSpec spec;

    @Option(
            names = "--prefix",
            paramLabel = "DIR",
            description = "the tree's place (that of this program, or /opt/ppmr)")
    private Path prefix;

    @Option(names = "--root", paramLabel = "DIR", defaultValue = "/", description = "as it was for install")
    private Path root;

    @Override
    public Integer call() throws IOException, InterruptedException, CommandFailure {
        Path base = root.toAbsolutePath().normalize();
        PrintWriter out = spec.commandLine().getOut();
        Installation installation = new Installation(base, place(base), out::println);
        if (!installation.exists()) {
            throw new CommandFailure(
                    ExitCode.FAILED, "nothing was installed at " + place(base) + ": name the place with --prefix");
        }
        boolean here = base.equals(Path.of("/")) && Installation.hasSystemd();
        List<String> running = here ? Installation.runningUnits() : List.of();
        if (!running.isEmpty()) {
            throw new CommandFailure(
                    ExitCode.FAILED,
                    String.join(" and ", running) + " runs: systemctl disable --now " + String.join(" ", running));
        }
        installation.uninstall();
        if (here) {
            Installation.reloadSystemd();
        }
        out.println("uninstalled");
        return ExitCode.OK.number();
    }

    private Path place(Path base) {
        if (prefix != null) {
            return prefix.toAbsolutePath().normalize();
        }
        Path own = Path.of(System.getenv().getOrDefault("PPMR_HOME", "/opt/ppmr"));
        return new Installation(base, own, text -> spec.commandLine().getOut().println(text)).exists()
                ? own
                : Path.of("/opt/ppmr");
    }
}
