package io.ppmr.bench;

import com.fasterxml.jackson.annotation.JsonInclude;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import io.ppmr.cli.BuildVersion;
import io.ppmr.linux.Command;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;

/**
 * The result of a benchmark, for {@code --json}.
 *
 * @param median of {@code mibPerSecond} over the runs, as are min and max
 * @param limit null where the benchmark has none
 * @param ratio median by the limit
 * @param details figures beside, in the benchmark's own names
 */
@JsonInclude(JsonInclude.Include.NON_NULL)
record Result(
        String name,
        Map<String, Object> settings,
        Machine machine,
        List<Run> runs,
        double median,
        double min,
        double max,
        Limit limit,
        Double ratio,
        Map<String, Object> details) {

    /**
     * The limit that a result is compared with.
     *
     * @param runs the limit's own runs, measured in turn with ours
     */
    record Limit(String name, double mibPerSecond, double ratio, List<Double> runs) {}

    /**
     * The machine that a result is from.
     *
     * @param device what carries the bytes
     * @param build version and commit
     */
    record Machine(
            int cores,
            String processor,
            long memoryBytes,
            String kernel,
            String jdk,
            String fuse,
            String device,
            String build) {

        static Machine here(String device) throws IOException, InterruptedException {
            return new Machine(
                    Runtime.getRuntime().availableProcessors(),
                    field("/proc/cpuinfo", "model name"),
                    Long.parseLong(field("/proc/meminfo", "MemTotal").replaceAll("\\D", "")) * 1024,
                    System.getProperty("os.name") + " " + System.getProperty("os.version"),
                    System.getProperty("java.vendor") + " " + System.getProperty("java.runtime.version"),
                    fuseVersion(),
                    device,
                    BuildVersion.text());
        }

        private static String field(String file, String name) throws IOException {
            for (String line : Files.readAllLines(Path.of(file))) {
                if (line.startsWith(name)) {
                    return line.substring(line.indexOf(':') + 1).strip();
                }
            }
            return "0";
        }

        private static String fuseVersion() throws InterruptedException {
            try {
                List<String> words = List.of("dpkg-query", "-W", "-f=${Version}", "libfuse2");
                return "libfuse " + Command.of(words).run(Duration.ofMinutes(1)).requireOutput();
            } catch (IOException e) {
                return "libfuse 2.9 (" + e.getMessage() + ")";
            }
        }
    }

    static Result of(
            String name,
            Map<String, Object> settings,
            Machine machine,
            List<Run> runs,
            Limit limit,
            Map<String, Object> details) {
        List<Double> figures = runs.stream().map(run -> run.mibPerSecond).toList();
        return new Result(
                name,
                settings,
                machine,
                runs,
                median(figures),
                min(figures),
                max(figures),
                limit,
                limit == null ? null : limit.ratio(),
                details);
    }

    void write(Path file) throws IOException {
        new ObjectMapper().enable(SerializationFeature.INDENT_OUTPUT).writeValue(file.toFile(), this);
    }

    /** Returns the middle of a few figures, or 0 if there are none. */
    static double median(List<Double> figures) {
        List<Double> sorted = figures.stream().sorted().toList();
        int count = sorted.size();
        return count == 0 ? 0 : (sorted.get((count - 1) / 2) + sorted.get(count / 2)) / 2;
    }

    static double min(List<Double> figures) {
        return figures.stream().mapToDouble(Double::doubleValue).min().orElse(0);
    }

    static double max(List<Double> figures) {
        return figures.stream().mapToDouble(Double::doubleValue).max().orElse(0);
    }
}
