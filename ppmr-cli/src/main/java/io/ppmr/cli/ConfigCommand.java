package io.ppmr.cli;

import io.ppmr.cli.config.ConfigDocs;
import io.ppmr.cli.config.ConfigException;
import io.ppmr.cli.config.ConfigRole;
import io.ppmr.cli.config.ResolvedValues;
import io.ppmr.cli.config.SourceConfig;
import io.ppmr.cli.config.TargetConfig;
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
    int check(
            @Parameters(paramLabel = "FILE", description = "the file") Path file,
            @Option(
                            names = "--elsewhere",
                            description = "the file is for another node: do not look for its key, users and hosts")
                    boolean elsewhere)
            throws ConfigException {
        ConfigRole role = role(file);
        read(role, file, elsewhere);
        spec.commandLine().getOut().println(file + ": a good configuration of a " + role.word());
        return ExitCode.OK.number();
    }

    @Command(
            name = "show",
            description = {
                "Shows what a file means: every key, with the defaults filled in, and where each value came from.",
                "What it prints is itself a configuration file that means the same."
            },
            mixinStandardHelpOptions = true)
    int show(
            @Parameters(paramLabel = "FILE", description = "the file") Path file,
            @Option(
                            names = "--elsewhere",
                            description = "the file is for another node: do not look for its key, users and hosts")
                    boolean elsewhere)
            throws ConfigException {
        ConfigRole role = role(file);
        ResolvedValues values = read(role, file, elsewhere);
        PrintWriter out = spec.commandLine().getOut();
        out.println("# " + file + ", resolved: the configuration of a " + role.word());
        values.lines().forEach(out::println);
        return ExitCode.OK.number();
    }

    @Command(
            name = "docs",
            description = "Prints the page of all keys, docs/configuration.md.",
            mixinStandardHelpOptions = true)
    int docs() {
        PrintWriter out = spec.commandLine().getOut();
        out.print(ConfigDocs.page());
        out.flush();
        return ExitCode.OK.number();
    }

    private static ConfigRole role(Path file) throws ConfigException {
        return TargetConfig.isTarget(file) ? ConfigRole.TARGET : ConfigRole.SOURCE;
    }

    private static ResolvedValues read(ConfigRole role, Path file, boolean elsewhere) throws ConfigException {
        return role.equals(ConfigRole.TARGET)
                ? TargetConfig.check(file, !elsewhere)
                : SourceConfig.check(file, !elsewhere);
    }
}
