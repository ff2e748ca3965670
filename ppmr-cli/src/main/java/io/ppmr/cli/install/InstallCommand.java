package io.ppmr.cli.install;

import io.ppmr.daemon.service.CommandFailure;
import io.ppmr.daemon.service.ExitCode;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/** {@code ppmr install}: the built tree, units, group, folders and configuration in place. */
@Command(
        name = "install",
        description = {
            "Puts the built tree at its place, units in /etc/systemd/system and configuration in /etc/ppmr.",
            "May be repeated, to upgrade. Configuration that was changed is kept."
        },
        mixinStandardHelpOptions = true)
public final class InstallCommand implements Callable<Integer> {
    @Spec
    private CommandSpec spec;

    @Option(
            names = "--prefix",
            paramLabel = "DIR",
            defaultValue = "/opt/ppmr",
            description = "the tree's place (${DEFAULT-VALUE})")
    private Path prefix;

    @Option(
            names = "--root",
            paramLabel = "DIR",
            defaultValue = "/",
            description = "a folder that stands for / while a package is made")
    private Path root;

    @Option(
            names = "--systemd",
            paramLabel = "RELEASE",
            description = "the release of systemd that the units are for, such as 219 (default: this node's)")
    private Integer systemd;

    @Override
    public Integer call() throws IOException, InterruptedException, CommandFailure {
        Path home = Path.of(System.getenv().getOrDefault("PPMR_HOME", "."));
        if (!Files.isDirectory(home.resolve("ppmr-cli/target/lib"))) {
            throw new CommandFailure(
                    ExitCode.FAILED, home + " is no built tree of ppmr: call ./ppmr install in the sources");
        }
        PrintWriter out = spec.commandLine().getOut();
        Path place = prefix.toAbsolutePath().normalize();
        int release = systemd == null ? Installation.systemdRelease() : systemd;
        new Installation(root.toAbsolutePath().normalize(), place, release, out::println).install(home);
        boolean here = root.toAbsolutePath().normalize().equals(Path.of("/"));
        if (here && Installation.hasSystemd()) {
            Installation.prepareSystemd();
        }
        out.println("installed at " + place + "; next: write /etc/ppmr/source.toml or target.toml, make a key (" + place
                + "/ppmr keygen), " + place + "/ppmr doctor, systemctl enable --now ppmr-source or ppmr-target");
        return ExitCode.OK.number();
    }
}
