package io.ppmr.cli;

import io.ppmr.cli.metrics.MetricsDocs;
import java.io.PrintWriter;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Spec;

/** {@code ppmr metrics}: what the services count. */
@Command(
        name = "metrics",
        description = "Prints the page of all meters, docs/metrics.md.",
        mixinStandardHelpOptions = true)
final class MetricsCommand implements Callable<Integer> {
    @Spec
    private CommandSpec spec;

    @Override
    public Integer call() {
        PrintWriter out = spec.commandLine().getOut();
        out.print(MetricsDocs.page());
        out.flush();
        return ExitCode.OK.number();
    }
}
