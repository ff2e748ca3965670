package io.ppmr.cli;

import io.ppmr.cli.help.ManPages;
import io.ppmr.cli.help.ShellCompletion;
import io.ppmr.cli.install.Installation;
import io.ppmr.daemon.service.CommandFailure;
import io.ppmr.daemon.service.ExitCode;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.AccessDeniedException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/** {@code ppmr install}: the built tree, units, group, folders and configuration in place. */
@Command(
        name = "install",
        description = {
            "Copies the built tree to its place, units to /etc/systemd/system and configuration to /etc/ppmr.",
            "Manual pages and completions go to /usr/share.",
            "Repeat it to upgrade. A configuration that was changed is kept."
        },
        mixinStandardHelpOptions = true)
public final class InstallCommand implements Callable<Integer> {
    @Spec
    private CommandSpec spec;

    @Option(
            names = "--prefix",
            paramLabel = "DIR",
            defaultValue = "/opt/ppmr",
            description = "the directory of the tree (default: ${DEFAULT-VALUE})")
    private Path prefix;

    @Option(
            names = "--root",
            paramLabel = "DIR",
            defaultValue = "/",
            description = "a directory in place of / while a package is made (default: ${DEFAULT-VALUE})")
    private Path root;

    @Option(
            names = "--systemd",
            paramLabel = "RELEASE",
            description = "the release of systemd that the units are for, such as 219 (default: this node's)")
    private Integer systemd;

    @Option(names = "--dry-run", description = "print what would be written; change nothing")
    private boolean dryRun;

    @Override
    public Integer call() throws IOException, InterruptedException, CommandFailure {
        Path home = Path.of(System.getenv().getOrDefault("PPMR_HOME", "."));
        if (!Files.isDirectory(home.resolve("ppmr-cli/target/lib"))) {
            throw new CommandFailure(
                    ExitCode.FAILED,
                    home + " is not a built source tree of ppmr. Remedy: ./ppmr build, then ./ppmr install, in the"
                            + " sources");
        }
        PrintWriter out = spec.commandLine().getOut();
        Path place = prefix.toAbsolutePath().normalize();
        int release = systemd == null ? Installation.systemdRelease() : systemd;
        Installation installation = new Installation(root.toAbsolutePath().normalize(), place, release, out::println);
        if (dryRun) {
            installation.dryRun();
        }
        try {
            installation.install(home, generated());
        } catch (AccessDeniedException e) {
            throw new CommandFailure(
                    ExitCode.FAILED,
                    "install needs root: " + e.getFile() + " cannot be written. Remedy: run it as root, or choose"
                            + " another place with --root and --prefix",
                    e);
        }
        if (dryRun) {
            return ExitCode.OK.number();
        }
        boolean here = root.toAbsolutePath().normalize().equals(Path.of("/"));
        if (here && Installation.hasSystemd()) {
            Installation.prepareSystemd();
        }
        out.println("installed at " + place + ". Next:");
        out.println("  1. " + place + "/ppmr keygen /etc/ppmr/key, and copy the key to every node");
        out.println("  2. edit /etc/ppmr/source.toml on a compute node, /etc/ppmr/target.toml on a spare node");
        out.println("  3. " + place + "/ppmr doctor");
        out.println("  4. systemctl enable --now ppmr-source, or ppmr-target");
        return ExitCode.OK.number();
    }

    /** Manual pages and completions, by their places. */
    private Map<Path, String> generated() {
        Map<Path, String> texts = new LinkedHashMap<>();
        ManPages.all(spec.root().commandLine())
                .forEach((page, text) -> texts.put(Path.of("/usr/share/man").resolve(page), text));
        texts.put(
                Path.of("/usr/share/bash-completion/completions/ppmr"), ShellCompletion.Shell.BASH.script(spec.root()));
        texts.put(Path.of("/usr/share/zsh/site-functions/_ppmr"), ShellCompletion.Shell.ZSH.script(spec.root()));
        return texts;
    }
}
