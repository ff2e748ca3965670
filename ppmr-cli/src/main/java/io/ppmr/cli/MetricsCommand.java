package io.ppmr.cli;

import io.ppmr.daemon.metrics.MetricsDocs;
import java.io.PrintWriter;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Spec;

/** {@code ppmr metrics}: prints the reference page of all metrics. */
@Command(
        name = "metrics",
        hidden = true,
        description = "Prints the reference page of all metrics.",
        mixinStandardHelpOptions = true)
final class MetricsCommand implements Runnable {
    @Spec
    private CommandSpec spec;

    @Override
    public void run() {
        PrintWriter out = spec.commandLine().getOut();
        out.print(MetricsDocs.page());
        out.flush();
    }
}
