package io.ppmr.cli;

import io.ppmr.checkpoint.Availability;
import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.cli.config.ConfigException;
import io.ppmr.cli.config.ConfiguredCheckpointers;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/** {@code ppmr checkpointers}: which of them can run on this node, and why the others cannot. */
@Command(
        name = "checkpointers",
        description = "Says which checkpointers can run on this node, and why the others cannot.",
        mixinStandardHelpOptions = true)
final class CheckpointersCommand implements Callable<Integer> {
    @Spec
    private CommandSpec spec;

    @Option(
            names = "--config",
            paramLabel = "FILE",
            description = "ask those of this configuration instead of those that ppmr knows")
    private Path config;

    @Override
    public Integer call() throws ConfigException {
        Map<String, Checkpointer> all =
                config == null ? ConfiguredCheckpointers.usual(System.getenv()) : ConfiguredCheckpointers.load(config);
        PrintWriter out = spec.commandLine().getOut();
        all.forEach((name, checkpointer) -> {
            Availability found = checkpointer.probe();
            out.printf(
                    "%-10s %-4s %-9s %s%n",
                    name,
                    found.available() ? "yes" : "no",
                    checkpointer.readingMode().name().toLowerCase(java.util.Locale.ROOT),
                    found.detail() + (found.remedy().isEmpty() ? "" : "; " + found.remedy()));
        });
        return ExitCode.OK.number();
    }
}
