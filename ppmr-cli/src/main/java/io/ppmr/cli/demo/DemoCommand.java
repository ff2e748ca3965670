package io.ppmr.cli.demo;

import io.ppmr.cli.CommandFailure;
import io.ppmr.cli.ExitCode;
import io.ppmr.cli.config.BadValueException;
import io.ppmr.cli.config.CommonKeys;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.ITypeConverter;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;
import picocli.CommandLine.TypeConversionException;

/** {@code ppmr demo}: moves two jobs between two nodes made on this machine, and proves that they went on. */
@Command(
        name = "demo",
        description = {
            "Makes two isolated nodes on this machine and moves jobs of several processes from one to the other:",
            "first processes that checkpoint themselves, streamed, then ordinary processes with CRIU. Needs root.",
            "Everything that it makes is gone afterwards."
        },
        mixinStandardHelpOptions = true)
public final class DemoCommand implements Callable<Integer> {
    private static final int MAX_PROCESSES = 64;
    private static final long MIN_SIZE_BYTES = 1 << 20;

    /** The checkpointers that can be shown. */
    enum Shown {
        BLCR,
        CRIU
    }

    @Spec
    private CommandSpec spec;

    @Option(names = "--checkpointer", paramLabel = "blcr|criu", description = "show this one only (default: both)")
    private Shown checkpointer;

    @Option(
            names = "--processes",
            paramLabel = "N",
            defaultValue = "4",
            description = "processes of each job (default: ${DEFAULT-VALUE})")
    private int processes;

    @Option(
            names = "--size",
            paramLabel = "SIZE",
            defaultValue = "128m",
            converter = SizeConverter.class,
            description = "memory of each process (default: ${DEFAULT-VALUE})")
    private long sizeBytes;

    @Option(names = "--json", paramLabel = "FILE", description = "write the figures there, too")
    private Path json;

    @Override
    public Integer call() throws Exception {
        requireSense();
        PrintWriter out = spec.commandLine().getOut();
        PrintWriter err = spec.commandLine().getErr();
        List<Shown> wanted = checkpointer == null ? List.of(Shown.values()) : List.of(checkpointer);
        Belongings belongings = new Belongings(text -> err.println("ppmr: " + text));
        Runtime.getRuntime().addShutdownHook(new Thread(belongings::closeEarly, "demo-end"));
        DemoReport report;
        try (belongings) {
            report = new Demo(out, belongings, processes, sizeBytes).run(wanted, checkpointer != null);
        } catch (IOException | IllegalStateException | CommandFailure e) {
            // What is taken away under the demo's feet fails in many ways, which nobody who pressed Ctrl-C asks for.
            if (belongings.closedEarly()) {
                throw new CommandFailure(ExitCode.FAILED, "told to end: the nodes and all in them are taken away", e);
            }
            throw e;
        }
        if (json != null) {
            report.write(json);
        }
        return (report.good() ? ExitCode.OK : ExitCode.FAILED).number();
    }

    private void requireSense() throws CommandFailure, IOException {
        if (!Files.getAttribute(Path.of("/proc/self"), "unix:uid").equals(0)) {
            throw new CommandFailure(
                    ExitCode.FAILED,
                    "the demo makes namespaces and mounts, so it must be run as root: sudo ./ppmr demo");
        }
        if (!Files.exists(Path.of("/dev/fuse"))) {
            throw new CommandFailure(
                    ExitCode.FAILED,
                    "/dev/fuse is not here, so nothing can be mounted: modprobe fuse, or in a container --device"
                            + " /dev/fuse");
        }
        if (processes < 1 || processes > MAX_PROCESSES || sizeBytes < MIN_SIZE_BYTES) {
            throw new CommandFailure(
                    ExitCode.USAGE, "the demo moves 1 to " + MAX_PROCESSES + " processes of at least 1m each");
        }
    }

    /** Sizes as in the configuration. */
    static final class SizeConverter implements ITypeConverter<Long> {
        @Override
        public Long convert(String text) {
            try {
                return CommonKeys.POOL_SIZE.type().parse(text, null);
            } catch (BadValueException e) {
                throw new TypeConversionException(e.getMessage());
            }
        }
    }
}
