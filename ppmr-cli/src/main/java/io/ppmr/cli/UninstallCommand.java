package io.ppmr.cli;

import io.ppmr.cli.install.Installation;
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

/** {@code ppmr uninstall}: removes the files that {@code ppmr install} created, and nothing else. */
@Command(
        name = "uninstall",
        description = {
            "Removes what ppmr install has put in place. A file that was changed since is kept, and named.",
            "It asks first, or needs --yes. Jobs that were moved here continue."
        },
        mixinStandardHelpOptions = true)
public final class UninstallCommand implements Callable<Integer> {
    @Spec
    private CommandSpec spec;

    @Option(
            names = "--prefix",
            paramLabel = "DIR",
            description = "the directory of the tree (default: that of this program, or /opt/ppmr)")
    private Path prefix;

    @Option(
            names = "--root",
            paramLabel = "DIR",
            defaultValue = "/",
            description = "the directory that stood for / at the installation (default: ${DEFAULT-VALUE})")
    private Path root;

    @Option(
            names = {"-y", "--yes"},
            description = "do it without asking")
    private boolean yes;

    @Option(names = "--dry-run", description = "print what would be removed; change nothing")
    private boolean dryRun;

    @Override
    public Integer call() throws IOException, InterruptedException, CommandFailure {
        Path base = root.toAbsolutePath().normalize();
        PrintWriter out = spec.commandLine().getOut();
        Installation installation = new Installation(base, place(base), out::println);
        if (!installation.exists()) {
            throw new CommandFailure(
                    ExitCode.FAILED,
                    "nothing is installed at " + place(base) + ". Remedy: name the place with --prefix");
        }
        if (dryRun) {
            installation.dryRun();
            installation.uninstall();
            return ExitCode.OK.number();
        }
        boolean here = base.equals(Path.of("/")) && Installation.hasSystemd();
        List<String> running = here ? Installation.runningUnits() : List.of();
        if (!running.isEmpty()) {
            throw new CommandFailure(
                    ExitCode.FAILED,
                    String.join(" and ", running) + " runs. Remedy: systemctl disable --now "
                            + String.join(" ", running));
        }
        OutputOptions.note(
                spec,
                installation.fileCount() + " files of " + place(base) + ", its units, manual pages and completions will"
                        + " be removed. --dry-run lists them.");
        if (!yes && !Confirmation.isGiven(spec)) {
            throw new CommandFailure(
                    ExitCode.REFUSED, "nothing was removed. Remedy: add --yes, or confirm on a terminal");
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
