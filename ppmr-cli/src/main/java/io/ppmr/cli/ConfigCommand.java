package io.ppmr.cli;

import io.ppmr.daemon.config.ConfigDocs;
import io.ppmr.daemon.config.ConfigRole;
import io.ppmr.daemon.config.file.ConfigException;
import io.ppmr.daemon.config.file.ResolvedValues;
import java.io.PrintWriter;
import java.nio.file.Path;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/** {@code ppmr config}: looks at configuration files. */
@Command(name = "config", description = "Checks and shows configuration files.", mixinStandardHelpOptions = true)
final class ConfigCommand implements Runnable {
    @Spec
    private CommandSpec spec;

    @Override
    public void run() {
        throw new ParameterException(spec.commandLine(), "say what to do: ppmr config check FILE");
    }

    @Command(
            name = "check",
            description = "Says everything that is wrong in a source's or a target's file (one with \"listen\").",
            mixinStandardHelpOptions = true)
    void check(
            @Parameters(paramLabel = "FILE", description = "the file") Path file,
            @Option(
                            names = "--elsewhere",
                            description = "the file is for another node: do not look for its key, users and hosts")
                    boolean elsewhere)
            throws ConfigException {
        ConfigRole role = ConfigRole.of(file);
        role.check(file, !elsewhere);
        spec.commandLine().getOut().println(file + ": a good configuration of a " + role.word());
    }

    @Command(
            name = "show",
            description = {
                "Shows what a file means: every key, with the defaults filled in, and where each value came from.",
                "What it prints is itself a configuration file that means the same."
            },
            mixinStandardHelpOptions = true)
    void show(
            @Parameters(paramLabel = "FILE", description = "the file") Path file,
            @Option(
                            names = "--elsewhere",
                            description = "the file is for another node: do not look for its key, users and hosts")
                    boolean elsewhere)
            throws ConfigException {
        ConfigRole role = ConfigRole.of(file);
        ResolvedValues values = role.check(file, !elsewhere);
        PrintWriter out = spec.commandLine().getOut();
        out.println("# " + file + ", resolved: the configuration of a " + role.word());
        values.lines().forEach(out::println);
    }

    @Command(
            name = "docs",
            description = "Prints the page of all keys, docs/reference/configuration.md.",
            mixinStandardHelpOptions = true)
    void docs() {
        PrintWriter out = spec.commandLine().getOut();
        out.print(ConfigDocs.page());
        out.flush();
    }
}
