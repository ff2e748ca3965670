package io.ppmr.cli;

import io.ppmr.checkpoint.Checkpointer;
import io.ppmr.checkpoint.Checkpointer.Availability;
import io.ppmr.cli.help.JsonResult;
import io.ppmr.daemon.config.CheckpointerConfig;
import io.ppmr.daemon.service.ExitCode;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/** {@code ppmr checkpointers}: which checkpointers can run on this node. */
@JsonResult(value = CheckpointersCommand.CheckedTool.class, list = true)
@Command(
        name = "checkpointers",
        description = {
            "Shows which checkpointers can run on this node, and for the others the cause and the remedy.",
            "Without a configuration it checks those that ppmr knows. Exit code 1: none can run."
        },
        mixinStandardHelpOptions = true)
final class CheckpointersCommand implements Callable<Integer> {
    @Spec
    private CommandSpec spec;

    @Mixin
    private ConfigArgument config;

    @Option(names = "--json", description = "print the result as JSON")
    private boolean json;

    /** A checkpointer as it is shown. */
    record CheckedTool(String name, boolean available, String reading, String text, String remedy) {}

    @Override
    public Integer call() throws Exception {
        Optional<Path> file = config.only();
        Map<String, Checkpointer> all =
                file.isEmpty() ? CheckpointerConfig.usual(System.getenv()) : CheckpointerConfig.load(file.get());
        List<CheckedTool> found = new ArrayList<>();
        all.forEach((name, checkpointer) -> {
            Availability availability = checkpointer.probe();
            found.add(new CheckedTool(
                    name,
                    availability.available(),
                    checkpointer.readingMode().name().toLowerCase(Locale.ROOT),
                    availability.detail(),
                    availability.remedy()));
        });
        PrintWriter out = spec.commandLine().getOut();
        if (json) {
            JsonText.print(out, found);
        } else {
            found.forEach(one -> print(one, out));
        }
        return (found.stream().anyMatch(CheckedTool::available) ? ExitCode.OK : ExitCode.FAILED).number();
    }

    private static void print(CheckedTool one, PrintWriter out) {
        out.println(String.format(
                "%-10s %-4s %-9s %s", one.name(), one.available() ? "yes" : "no", one.reading(), one.text()));
        if (!one.remedy().isEmpty()) {
            out.println(String.format("%-10s -> %s", "", one.remedy()));
        }
    }
}
