package io.ppmr.cli;

import io.ppmr.cli.config.ConfigException;
import io.ppmr.cli.config.SourceConfig;
import io.ppmr.cli.config.TargetConfig;
import java.nio.file.Path;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/** {@code ppmr config}: looks at configuration files. */
@Command(name = "config", description = "Checks configuration files.", mixinStandardHelpOptions = true)
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
        boolean target = TargetConfig.isTarget(file);
        if (target) {
            TargetConfig.check(file, !elsewhere);
        } else {
            SourceConfig.check(file, !elsewhere);
        }
        spec.commandLine().getOut().println(file + ": a good configuration of a " + (target ? "target" : "source"));
        return ExitCode.OK.number();
    }
}
