package io.ppmr.bench;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import io.ppmr.bench.pieces.Pieces;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.profile.GCProfiler;
import org.openjdk.jmh.results.RunResult;
import org.openjdk.jmh.runner.Runner;
import org.openjdk.jmh.runner.options.Options;
import org.openjdk.jmh.runner.options.OptionsBuilder;
import org.openjdk.jmh.runner.options.TimeValue;
import org.openjdk.jmh.runner.options.VerboseMode;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/** {@code bench pieces}: the inner pieces by JMH, in JVMs of their own with the product's flags. */
@Command(
        name = "pieces",
        description = "the inner pieces by JMH: pool, range set, CRC32C, frames; time and bytes allocated an operation",
        mixinStandardHelpOptions = true)
final class PiecesCommand implements Callable<Integer> {
    private static final String ALLOCATED = "gc.alloc.rate.norm";

    /**
     * The cost of one operation.
     *
     * @param error half of JMH's 99.9 % confidence interval
     */
    record Piece(String name, double nanoseconds, double error, double allocatedBytes) {}

    @Spec
    private CommandSpec spec;

    @Option(
            names = "--only",
            paramLabel = "REGEX",
            defaultValue = "",
            description = "only those whose names contain a match (default: all)")
    private String only;

    @Option(
            names = "--forks",
            paramLabel = "N",
            defaultValue = "3",
            description = "JVMs for each (default: ${DEFAULT-VALUE})")
    private int forks;

    @Option(
            names = "--seconds",
            paramLabel = "N",
            defaultValue = "1",
            description = "length of each of five measurements in a JVM (default: ${DEFAULT-VALUE})")
    private int seconds;

    @Option(names = "--json", paramLabel = "FILE", description = "write the result there, too")
    private Path json;

    @Override
    public Integer call() throws Exception {
        PrintWriter out = spec.commandLine().getOut();
        Options options = new OptionsBuilder()
                .include(Pieces.class.getName().replace(".", "\\.") + "\\..*" + only)
                .mode(Mode.AverageTime)
                .timeUnit(TimeUnit.NANOSECONDS)
                .forks(forks)
                .warmupIterations(3)
                .warmupTime(TimeValue.seconds(seconds))
                .measurementIterations(5)
                .measurementTime(TimeValue.seconds(seconds))
                .addProfiler(GCProfiler.class)
                .verbosity(VerboseMode.SILENT)
                .build();
        List<Piece> pieces = new ArrayList<>();
        for (RunResult result : new Runner(options).run()) {
            pieces.add(piece(result));
        }
        for (Piece piece : pieces) {
            out.printf(
                    Locale.ROOT,
                    "%-40s %10.1f ns (+- %.1f)  %6.1f B%n",
                    piece.name(),
                    piece.nanoseconds(),
                    piece.error(),
                    piece.allocatedBytes());
        }
        if (json != null) {
            Map<String, Object> all = new LinkedHashMap<>();
            all.put("name", "pieces");
            all.put("machine", Result.Machine.here("none"));
            all.put("pieces", pieces);
            new ObjectMapper().enable(SerializationFeature.INDENT_OUTPUT).writeValue(json.toFile(), all);
        }
        return 0;
    }

    private static Piece piece(RunResult result) {
        String benchmark = result.getParams().getBenchmark();
        String name = benchmark.substring(Pieces.class.getName().length() + 1);
        if (!result.getParams().getParamsKeys().isEmpty()) {
            name += " " + result.getParams().getParam("chunkBytes");
        }
        org.openjdk.jmh.results.Result<?> time = result.getPrimaryResult();
        org.openjdk.jmh.results.Result<?> allocated =
                result.getSecondaryResults().get(ALLOCATED);
        return new Piece(
                name, time.getScore(), time.getScoreError(), allocated == null ? Double.NaN : allocated.getScore());
    }
}
